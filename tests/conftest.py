"""The explorer for tests: one server and one browser per process, and for every test a store and a gate of its own."""

import gc
import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

if os.environ.get("ONESTRIDE_CHECK_SHAPES"):  # `make shapes`; before anything imports the package
    import shapes

    shapes.install()

from recorded import on_file, recorded_seeds  # noqa: F401  (fixtures)
from waiting import LIMIT, Gate, HeldWork

LONG = {  # files and tests with the marker `long`
    "cli/test_terminal.py",
    "test_dependencies.py",
    "test_diagnosis.py",
    "simulation/test_memory.py",
    "sweeps/test_faults.py",
    "docs/test_pages.py",
    "experiments/test_catalogue.py",
    "experiments/test_neighbours.py",
    "experiments/test_open.py",
    "experiments/test_paper.py",
    "experiments/test_reproduce.py",
    "docs/test_sweeps.py",
    "sweeps/test_program.py",
    "agreement/test_theory_against_simulation.py",
    "web/test_browser.py",
    "web/test_page.py",
    "web/test_panels.py",
    "web/test_server.py",
    "theory/test_quick.py",
    "cli/test_commands.py::test_json_is_strict_json",
    "test_comparison.py::test_exact_theories_are_called_different_at_the_stated_rate",
    "test_comparison.py::test_intervals_cover_the_truth_as_often_as_they_say",
    "test_comparison.py::test_default_theory_and_simulation_do_not_differ",
    "store/test_store.py::test_processes_writing_at_once_lose_nothing",
    "theory/test_reliability.py::test_extreme_problems_end_in_a_result_or_a_sentence",
    "theory/test_reliability.py::test_every_problem_gets_a_number_or_a_sentence",
    "simulation/test_streamed.py::test_row_blocks_run_on_a_real_dask_cluster",
    "simulation/test_cost.py::test_the_plan_names_the_method_and_needs_no_run",
    "estimator/test_estimator.py::test_documentation_prints_what_its_comments_say",
    "test_functions.py::test_no_position_of_a_kink_or_jump_is_missed",
    "theory/test_giant_step.py::test_simulation_agrees",
    "theory/test_learned.py::test_measured_components_are_the_predicted_ones",
    "theory/test_plateau.py::test_limit_model_agrees_with_the_plateaus",
    "theory/test_profile.py::test_agrees_with_a_small_simulation",
    "theory/test_profile.py::test_gaussian_rows_change_the_simulated_test_error_as_predicted",
    "theory/test_profile.py::test_laws_of_the_gradient_noise_match_drawn_matrices",
    "theory/test_spectrum.py::test_measured_bulk_follows_the_predicted_law",
    "theory/test_spectrum.py::test_measured_outliers_and_overlaps_are_the_predicted_ones",
    "theory/test_spectrum.py::test_measured_seed_does_not_depend_on_the_batch",
    "theory/test_spectrum.py::test_trained_density_integrates_to_one",
    "estimator/test_estimator.py::test_package_is_whole_without_scikit_learn_and_the_other_extras",
    "estimator/test_explain.py::test_explanation_of_a_step_that_helps_names_what_was_measured",
    "estimator/test_explain.py::test_explanation_says_that_there_is_no_linear_signal",
    "simulation/test_features.py::test_a_device_too_small_for_everything_gives_the_same_numbers",
    "simulation/test_spectrum.py::test_measured_density_is_the_smoothed_spectrum",
    "sweeps/test_drive.py::test_a_store_of_the_first_schema_is_known_work",
    "sweeps/test_marked.py::test_plots_draw_marked_theory_dashed_and_name_it",
    "test_architecture.py::test_theory_and_simulation_do_not_load_each_other",
    "test_learning_curves.py::test_tuned_points_have_the_best_penalty",
    "theory/test_covariance.py::test_a_vanishing_step_gives_the_untrained_network",
    "theory/test_covariance.py::test_direct_simulation_agrees",
    "theory/test_covariance.py::test_numbers_of_an_independent_simulator",
    "theory/test_covariance.py::test_random_lengths_agree_with_simulation",
    "theory/test_density.py::test_density_integrates_to_one_less_the_atom",
    "theory/test_density.py::test_each_degree_has_a_bulk_of_its_own",
    "theory/test_density.py::test_untrained_eigenvalues_lie_in_the_bands_of_their_degrees",
    "theory/test_directions.py::test_a_function_of_one_of_several_coordinates_is_a_teacher_of_one_direction",
    "theory/test_directions.py::test_a_teacher_that_is_zero_leaves_the_noise",
    "theory/test_directions.py::test_errors_and_learned_parts_agree_with_simulation",
    "theory/test_gaps.py::test_eigenvalues_between_the_bulks_are_where_theory_puts_them",
    "theory/test_gaps.py::test_length_of_x_is_between_the_bulks_before_any_step",
    "theory/test_gaps.py::test_square_leaves_the_second_bulk_before_it_leaves_the_first",
    "theory/test_learned.py::test_measured_components_with_few_inputs_are_the_predicted_ones",
    "theory/test_learned.py::test_untrained_network_learns_degree_two_once_samples_reach_its_harmonics",
    "theory/test_one_neuron.py::test_the_weights_of_drawn_networks_follow_the_map",
    "theory/test_optimum.py::test_split_equals_brute_force",
    "theory/test_optimum.py::test_step_and_penalty_equal_brute_force",
    "theory/test_plateau.py::test_direction_of_the_gradient",
    "web/test_query.py::test_copied_python_builds_the_same_problem_and_prints_its_numbers",
    "theory/test_registry.py::test_levels_answer_to_their_codes",
    "theory/test_same_samples.py::test_descent_on_one_batch_is_stable_up_to_its_bound",
    "theory/test_same_samples.py::test_drawn_networks_follow_the_map",
    "theory/test_schedule.py::test_derivatives_match_finite_differences",
    "theory/test_schedule.py::test_more_nodes_change_nothing",
    "theory/test_schedule.py::test_simulated_reused_batches_agree",
    "theory/test_schedule.py::test_simulated_schedules_agree",
    "theory/test_schedule.py::test_unstable_descent_is_marked",
    "theory/test_spectrum.py::test_a_spectrum_known_to_be_off_carries_its_status",
    "test_shown.py",
    "simulation/test_luck.py::test_known_moments_have_mean_zero",
    "simulation/test_luck.py::test_weights_that_come_in_tiles_have_the_same_luck",
    "theory/test_schedule.py::test_what_is_not_described_is_refused_in_a_sentence",
    "estimator/test_network.py::test_a_step_gains_on_fresh_rows_where_inputs_are_irrelevant",
    "estimator/test_network.py::test_leave_one_out_flatters_a_step_on_noise_and_held_out_rows_do_not",
    "simulation/test_devices.py::test_every_array_library_gives_the_same_errors",
    "simulation/test_devices.py::test_float32_is_close_and_says_how_close",
    "theory/test_finite_step.py::test_ten_thousand_cells_come_from_one_call",
    "theory/test_density.py::test_atom_is_the_missing_rank",
    "theory/test_density.py::test_polynomial_features_have_the_rank_of_their_degrees",
    "theory/test_schedule.py::test_directions_that_labels_do_not_depend_on_change_nothing",
    "sweeps/test_drive.py::test_rows_are_what_simulate_and_predict_say",
    "sweeps/test_drive.py::test_workers_simulate_on_a_device",
    "sweeps/test_drive.py::test_a_larger_sweep_computes_only_what_is_new",
    "theory/test_any_model.py::test_the_density_integrates_to_one",
    "theory/test_any_model.py::test_the_bulk_of_correlated_inputs_is_that_of_drawn_features",
    "estimator/test_maps.py::test_default_learns_a_target_without_linear_and_quadratic_part",
    "theory/test_spectrum.py::test_without_a_step_both_densities_agree",
    "theory/test_reliability.py::test_few_inputs_agree_with_a_simulation_of_ours",
    "theory/test_correlated.py::test_descent_is_stable_up_to_the_bound",
    "theory/test_one_neuron.py::test_descent_is_stable_up_to_the_bound",
    "theory/test_gaps.py::test_overlaps_between_the_bulks_are_squared_lengths",
    "theory/test_profile.py::test_too_few_nodes_for_a_strong_step_are_told",
    "docs/test_docstrings.py",
    "agreement/test_published.py::test_descent_on_one_reused_batch_gives_the_published_curve",
    "cli/test_commands.py::test_every_command_begins_with_the_problem_it_solves",
    "docs/test_readme.py::test_every_command_and_option_is_documented",
    "estimator/test_checks.py::test_activation_may_be_a_list_of_hermite_coefficients",
    "estimator/test_estimator.py::test_string_labels_and_probabilities",
    "estimator/test_explain.py::test_explanation_of_any_activation_and_of_few_rows",
    "experiments/test_sentences.py::test_inputs_says_of_the_table_what_its_numbers_say",
    "simulation/test_features.py::test_a_host_too_small_for_the_features_makes_them_anew",
    "simulation/test_luck.py::test_precise_values_spread_less",
    "simulation/test_together.py::test_groups_of_seeds_take_their_own_draws",
    "store/test_store.py::test_journal_cut_at_every_byte_of_its_last_record_loses_only_that_record",
    "sweeps/test_drive.py::test_any_executor_gives_the_same_bits",
    "test_architecture.py::test_only_one_part_imports",
    "test_functions.py::test_a_box_is_two_jumps",
    "theory/test_any_model.py::test_one_step_has_the_outliers_of_the_special_sector",
    "theory/test_atlas.py::test_exponents_without_a_step_are_the_known_ones",
    "theory/test_covariance.py::test_learned_direction_and_weights_along_it_are_those_of_a_drawn_step",
    "theory/test_covariance.py::test_the_identity_gives_the_theory_of_isotropic_inputs",
    "theory/test_degrees.py::test_more_nodes_change_nothing",
    "theory/test_degrees.py::test_neurons_stretched_along_the_teacher_see_more_of_its_degree_two",
    "theory/test_density.py::test_density_has_the_right_mean",
    "theory/test_density.py::test_softplus_has_two_bands_of_equal_mass",
    "theory/test_density.py::test_without_a_linear_part_the_law_is_marchenko_pastur",
    "theory/test_directions.py::test_no_variance_of_a_trained_model_is_negative",
    "theory/test_directions.py::test_so_it_is_for_what_is_learned_the_baselines_and_the_other_theories",
    "theory/test_optimum.py::test_a_step_that_only_hurts_is_not_taken",
    "theory/test_profile.py::test_weights_along_the_learned_direction_spread_as_those_of_a_drawn_step",
    "theory/test_reliability.py::test_a_diagnosis_begins_with_the_mark",
    "theory/test_reliability.py::test_fluctuation_is_the_length_that_a_drawn_gradient_adds",
    "theory/test_reliability.py::test_readouts_of_one_size_are_marked_where_degree_two_is_just_being_learned",
    "theory/test_same_samples.py::test_a_linear_network_is_descent_of_least_squares",
    "theory/test_reliability.py::test_several_steps_of_two_directions_under_a_covariance_have_a_model",
    "theory/test_covariance.py::test_the_likeliest_draw_is_as_accurate_on_half_the_nodes",
    "estimator/test_explain.py::test_explanation_of_a_linear_target_says_that_the_skip_connection_has_it",
    "simulation/test_luck.py::test_precise_values_have_the_mean_of_plain_ones",
    "estimator/test_table.py::test_magnitude_of_inputs_and_targets_does_not_matter",
    "theory/test_slopes.py::test_slopes_are_those_of_errors_solved_for",
    "theory/test_schedule.py::test_a_reused_batch_costs_what_another_simulator_measured",
    "docs/test_notebooks.py",
    "estimator/test_targets.py::test_spikes_do_not_break_the_default",
    "theory/test_any_model.py::test_outliers_of_several_steps_and_of_covariances",
    "simulation/test_together.py::test_seeds_together_are_the_seeds_alone",
    "theory/test_one_neuron.py::test_few_nodes_follow_neurons_that_saturate_at_different_times",
    "theory/test_optimum.py::test_descent_along_slopes_equals_brute_force",
    "theory/test_correlated.py::test_a_direction_that_labels_do_not_depend_on_changes_nothing",
    "estimator/test_estimator.py::test_scikit_learn_check_where_the_table_chooses",
    "theory/test_covariance.py::test_strong_steps_at_every_length_end_in_a_sentence",
    "theory/test_covariance.py::test_columns_that_tell_little_may_be_noise",
    "theory/test_correlated_again.py::test_three_steps_beyond_the_bound_are_marked",
    "theory/test_correlated_again.py::test_drawn_networks_follow_the_map",
    "theory/test_correlated_again.py::test_a_linear_network_is_descent_of_least_squares",
    "theory/test_correlated_again.py::test_the_identity_gives_the_map_of_isotropic_inputs",
    "theory/test_correlated_again.py::test_what_m_does_is_never_more_than_a_neurons_noise",
    "theory/test_any_model.py::test_few_columns_have_the_edge_the_outliers_and_the_bulk_of_all",
    "theory/test_assumptions.py::test_several_steps_that_leave_the_range_of_numbers_are_told",
}


# roughly what the long tests of a folder take of one core, to deal them out evenly; for web that of the browser, too
SECONDS = {
    "web": 150,
    "theory": 130,
    "experiments": 100,
    "tests": 70,
    "estimator": 65,
    "sweeps": 55,
    "simulation": 50,
    "docs": 35,
    "cli": 17,
    "agreement": 12,
}


def pytest_collection():
    """Nothing that is loaded or collected is garbage: looking through it takes a sixth of the collection."""
    gc.disable()


def pytest_collection_finish():
    gc.enable()  # without `gc.freeze`, after which an old hypothesis takes what is kept for garbage


def pytest_ignore_collect(collection_path, config):
    """Files of long tests are not even loaded by `make quick`."""
    if "not long" in config.option.markexpr and "tests/" in (path := collection_path.as_posix()):
        return path.rpartition("tests/")[2] in LONG or None
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items):
    for item in items:
        name = item.nodeid.rpartition("tests/")[2].split("[")[0]
        if name in LONG or name.split("::")[0] in LONG:
            item.add_marker(pytest.mark.long)
    yield  # what was not asked for is taken out
    if workers := os.environ.get("PYTEST_XDIST_WORKER_COUNT"):
        items[:] = dealt_out(items, int(workers))


def dealt_out(items, workers):
    """The order in which `--dist worksteal`, whose workers begin with equal runs of it, starts long tests first.

    Those of a folder stay together, as they share a server, a browser, a sweep; short ones, at the end of every worker's
    run, are what the others steal.
    """
    shares, seconds, short = [[] for _ in range(workers)], [0] * workers, []
    folders = {}
    for item in items:
        is_long = item.get_closest_marker("long")
        (folders.setdefault(item.path.parent.name, []) if is_long else short).append(item)
    for folder in sorted(folders, key=lambda name: -SECONDS.get(name, 0)):
        least = seconds.index(min(seconds))
        shares[least] += folders[folder]
        seconds[least] += SECONDS.get(folder, 0)
    for k, share in enumerate(shares):
        left = sum(map(len, shares[k:])) + len(short)
        fill = max(0, left // (workers - k) - len(share))
        share += short[:fill]
        del short[:fill]
    return [item for share in shares for item in share]


@pytest.fixture(scope="session")
def seed() -> int:
    """Where a test with a false-alarm rate draws from: what is seed k at 0 is seed 1000·seed + k (`make seeds`)."""
    return int(os.environ.get("ONESTRIDE_TEST_SEED", "0"))


@pytest.fixture(autouse=True)
def _simulations_on_file(request):
    """What theory is held to by statistics is simulated once and kept (`recorded.py`)."""
    if request.node.get_closest_marker("statistical"):
        request.getfixturevalue("recorded_seeds")


@dataclass(frozen=True)
class Server:
    """The real server in a thread of this process."""

    app: Any
    address: str

    @contextmanager
    def using(self, store, gate):
        """Read from and write to `store`; jobs stop at `gate`, and end with the test."""
        from onestride.web.background import Simulations

        before = self.app.state.simulations
        simulations = self.app.state.simulations = Simulations(store, work=HeldWork(gate))
        try:
            yield
        finally:
            self.app.state.simulations = before  # pages that outlive this test see their own store again
            simulations.cancel()
            gate.open()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    from onestride.web import workers
    from onestride.web.app import create_app
    from onestride.web.serve import listen, make_server, page_address

    workers.PROCESSES |= {"quick": 1, "full": 1}  # each takes seconds to start

    listener = listen("127.0.0.1", 0)
    app = create_app(tmp_path_factory.mktemp("explorer"))
    running = make_server(app)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
    thread.start()
    yield Server(app, page_address("127.0.0.1", listener.getsockname()[1]).rstrip("/"))
    running.should_exit = True
    thread.join()


@pytest.fixture
def gate(tmp_path):
    return Gate(tmp_path / "gate")


@pytest.fixture
def store(server, gate, tmp_path):
    """The store of this test, empty; the server uses it."""
    with server.using(tmp_path / "store", gate):
        yield tmp_path / "store"


@pytest.fixture
def client(server, store):
    import httpx

    with httpx.Client(base_url=server.address, timeout=LIMIT) as client:
        yield client


@pytest.fixture(scope="session")
def browser():
    """Debian's or anybody's chromium; one per process, as playwright allows no second."""
    from playwright.sync_api import expect, sync_playwright

    from waiting import CHROMIUM

    expect.set_options(timeout=1000 * LIMIT)
    with sync_playwright() as playwright:
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--process-per-site"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options, timeout=1000 * LIMIT)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def profile(browser, server):
    """One profile for the tabs of all tests: a profile starts a renderer, which costs as much as two loads of the page."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, base_url=server.address)
    context.set_default_timeout(1000 * LIMIT)
    context.set_default_navigation_timeout(1000 * LIMIT)  # which old releases of playwright keep apart
    yield context
    context.close()
