"""Cells: what is in a key, which cells make a group, which records belong to it."""

import pytest

import onestride as one
from onestride.store import Record
from onestride.sweeps.cells import (
    Group,
    failed_key,
    group_cells,
    key_of,
    problem_content,
    problem_of,
    run_cell,
    theory_cell,
)
from onestride.sweeps.spec import read_sweep

BASE = {"n": 30, "d": 20, "N": 40}


def test_content_round_trips_and_leaves_defaults_out():
    problem = one.Problem(**BASE, activation=[0, 1, 0.5], ridge=2.0, step=one.Step(exponent=0.3), n_step=17)
    content = problem_content(problem)
    assert "gradient" not in content  # so that a new field with a default changes no key
    assert problem_of(content) == problem


OTHER = {"n": 31, "d": 21, "N": 41, "activation": "tanh", "teacher": (0, 1, 0.5), "noise": 0.3, "ridge": 0.7}
OTHER |= {"gradient": "labels", "weights": "gaussian", "readout": "constant", "n_step": 17, "centred": False}
OTHER |= {"inputs": "uniform", "steps": 2, "batch": "reused", "fresh": False, "directions": 2, "mix": "staircase"}
STEPS = {"exponent": one.Step(constant=1.0, exponent=0.3), "constant": one.Step(constant=2.0)}


@pytest.mark.parametrize("name", [*OTHER, *STEPS])
def test_every_field_is_in_the_key_and_in_the_groups(name):
    assert set(OTHER) | {"step"} == set(one.Problem.model_fields)
    problem = one.Problem(**BASE, step=one.Step(constant=1.0))
    other = problem.replace(step=STEPS[name]) if name in STEPS else problem.replace(**{name: OTHER[name]})
    contents = [problem_content(p) for p in (problem, other)]
    assert len({key_of("run", run_cell(content, 0)) for content in contents}) == 2
    assert [problem_of(content) for content in contents] == [problem, other]
    groups = group_cells([(problem, (0,)), (other, (0,))])
    assert len(groups) == (1 if name in ("ridge", "exponent") else 2)
    assert [group.cell(pair) for group in groups for pair in group.pairs] == [problem, other]


def test_a_record_is_of_its_method_and_its_seed():
    content = problem_content(one.Problem(**BASE))
    methods = {key_of("theory", theory_cell(content, method)) for method in ("auto", "profile", "plateau")}
    seeds = {key_of("run", run_cell(content, seed)) for seed in range(3)}
    assert len(methods | seeds) == 6


def test_cells_with_other_seeds_are_another_group():
    a, b = (one.Problem(**BASE, ridge=ridge) for ridge in (0.1, 1.0))
    groups = group_cells([(a, (0, 1)), (b, (5,)), (a, (1, 2))])
    assert [([g.cell(pair) for pair in g.pairs], g.seeds) for g in groups] == [([a], (0, 1, 2)), ([b], (5,))]


def test_cells_of_a_group_have_the_content_of_their_problem():
    axes = {"exponent": [0.0, -0.0, 0.3], "ridge": [0.1, 1.0]}
    (group,) = read_sweep({"problem": BASE, "axes": axes}).groups
    assert group.contents == [problem_content(group.cell(pair)) for pair in group.pairs]


def test_keys_of_cells_are_pinned():
    """A change here makes every existing store look empty; raise the numerics tag only when numbers change."""
    problem = one.Problem(**BASE, teacher=[0, 1, 0.5], noise=0.5, step=one.Step(exponent=0.25))
    assert key_of("run", run_cell(problem_content(problem), 3)) == "9fb4bf56054b8fe7600222261fb6b6c7"


def test_registered_functions_are_told_from_their_namesakes():
    one.register("sweep_test_function", lambda z: z**3, lambda z: 3 * z**2)
    problem = one.Problem(**BASE, activation="sweep_test_function")
    before = problem_content(problem)
    one.register("sweep_test_function", lambda z: z**3 + z, lambda z: 3 * z**2 + 1)
    assert problem_content(problem) != before
    assert problem_of(before) == problem


def test_so_are_registered_teachers_of_several_directions():
    one.register("sweep_test_teacher", lambda z: z[..., 0] * z[..., 1], directions=2)
    problem = one.Problem(**BASE, teacher="sweep_test_teacher", directions=2)
    before = problem_content(problem)
    one.register("sweep_test_teacher", lambda z: z[..., 0] + z[..., 1], directions=2)
    assert problem_content(problem) != before
    assert problem_of(before) == problem
    mixed = problem_content(one.Problem(**BASE, teacher="shifted_erf", directions=2))
    assert (
        mixed["registered"]["teacher"]
        == problem_content(one.Problem(**BASE, teacher="shifted_erf"))["registered"]["teacher"]
    )


def test_the_records_of_a_group_are_one_for_each_cell_and_part():
    group = Group(one.Problem(**BASE), ((0.0, 0.1), (0.2, 0.1)), (4, 7), "profile")
    assert group.parts == (None, 4, 7)
    contents = [problem_content(group.cell(pair)) for pair in group.pairs]
    expected = [
        (key_of("theory", theory_cell(c, "profile")), *(key_of("run", run_cell(c, seed)) for seed in (4, 7)))
        for c in contents
    ]
    assert group.keys_by_cell == expected
    assert group.with_seeds((1,)).keys_by_cell == [
        (*keys, key_of("run", run_cell(c, 1))) for keys, c in zip(expected, contents, strict=True)
    ]
    assert Group(group.problem, group.pairs, (4, 7), "none").parts == (4, 7)


def test_a_failure_stands_in_the_place_of_a_record():
    cell = run_cell(problem_content(one.Problem(**BASE)), 3)
    failure = Record.new("failure", {"of": "run", "cell": cell, "attempt": 1}, {"reason": "no memory"}, {})
    assert failed_key(failure) == key_of("run", cell)


def test_a_function_built_in_later_keeps_its_fingerprint():
    """Its cells were stored with one: without it they would be computed again."""
    assert "registered" in problem_content(one.Problem(**BASE, activation="shifted_erf"))
    assert "registered" not in problem_content(one.Problem(**BASE, activation="erf"))
