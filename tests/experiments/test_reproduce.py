"""The main job at a tiny size: every claim is there, the page is self-contained, nothing is half-written."""

import json
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from onestride.compare import Agreement
from onestride.experiments import claim, claims_features
from onestride.experiments.claim import HOLDS, NOT_YET, PARTLY, Sizes, growth
from onestride.experiments.claims_errors import limit_verdict
from onestride.experiments.reproduce import reproduce
from onestride.plot import Panel, Series, draw, save, to_csv
from onestride.report import write_report
from onestride.result import Estimate
from onestride.simulation.equivalent import MeasuredEquivalence, measure_equivalence, measure_limit
from onestride.simulation.gradient import largest_singular_values, measure_gradient
from tolerances import deviations


@pytest.fixture(scope="module")
def reproduction():
    tiny = pytest.MonkeyPatch()
    tiny.setitem(claim.SIZES, "small", Sizes((60, 120), 4))
    yield reproduce("small")
    tiny.undo()


def test_every_claim_of_the_paper_has_a_line(reproduction):
    assert [c.number for c in reproduction.claims] == ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10a", "10b"]
    for c in reproduction.claims:
        assert c.predicted
        assert c.measured
        assert c.verdict in claim.VERDICTS
        assert len(c.detail) > 40
        assert "nan" not in c.measured


def test_report_is_complete_and_self_contained(reproduction, tmp_path):
    page = write_report(reproduction, tmp_path / "out").read_text(encoding="utf-8")
    for c in reproduction.claims:
        assert f'id="claim-{c.number}"' in page
    assert page.count("<svg") == 1 + sum(bool(c.panels) for c in reproduction.claims)
    for outside in ("src=", "@import", "<link", "<script"):
        assert outside not in page
    files = {path.name for path in (tmp_path / "out").iterdir()}
    stems = {name.rsplit(".", 1)[0] for name in files if name.endswith(".pdf")}
    assert len(stems) == 10
    assert all({f"{s}.png", f"{s}.csv"} <= files for s in stems)
    assert {"report.html", "claims.csv", "claims.json", "claims.md", "provenance.json"} <= files
    shown = re.findall(
        r"^!\[.*\]\((.*)\)\n\n\*.+\*$", (tmp_path / "out" / "claims.md").read_text("utf-8"), re.MULTILINE
    )
    assert shown == [f"{s}.png" for s in sorted(stems - {"overview"})]  # every caption has its figure above it
    json.loads((tmp_path / "out" / "claims.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)


def test_report_into_a_file_is_a_sentence_for_the_user(reproduction, tmp_path):
    (tmp_path / "taken").write_text("", encoding="utf-8")
    with pytest.raises(OSError, match="taken"):
        write_report(reproduction, tmp_path / "taken")


@pytest.mark.statistical(rate=1e-5)
def test_growth_recovers_a_power_law(seed):
    rng = np.random.default_rng(1000 * seed)
    ns = (100, 200, 400)
    estimates = [Estimate(3 * n**-0.5 * (1 + 0.01 * rng.standard_normal(50))) for n in ns]
    slope, stderr = growth(ns, estimates)
    assert abs(slope + 0.5) < 5 * stderr
    assert stderr < 0.01


def test_claim_four_fails_when_the_distance_does_not_fall():
    """The verdict follows the data: planted distances that rise with n are not called a success."""
    sizes = Sizes((100, 400), 4)

    def planted(n, exact, rank_one):
        one = Estimate(1 + 0.001 * deviations(4))
        wrap = [Estimate(x * one.values) for x in (exact, rank_one, 0.1)]
        pair = Estimate(np.ones((4, 3)))
        return MeasuredEquivalence(claim.paper_problem(n, exponent=0.29), 2, (0, 1, 2, 3), *wrap, pair, pair)

    falling = {0.29: [planted(100, 0.5, 0.5), planted(400, 0.3, 0.3)]}
    rising = {0.29: [planted(100, 0.3, 0.5), planted(400, 0.5, 0.3)]}
    both = {0.29: [planted(100, 0.3, 0.3), planted(400, 0.5, 0.5)]}
    verdicts = [claims_features.expansion(sizes, runs).verdict for runs in (falling, rising, both)]
    assert verdicts == [HOLDS, PARTLY, NOT_YET]


@pytest.mark.parametrize(
    ("reached", "model", "verdict"),
    [
        ("AGREES", "UNDECIDED", HOLDS),
        ("DIFFERS", "AGREES", NOT_YET),
        ("DIFFERS", "UNDECIDED", claim.UNDECIDED),
        ("UNDECIDED", "AGREES", claim.UNDECIDED),
        ("AGREES", "DIFFERS", claim.FAILS),
    ],
)
def test_a_limit_that_is_not_reached_needs_another_confirmation(reached, model, verdict):
    assert limit_verdict(Agreement[reached], Agreement[model]) == verdict


def test_gradient_of_an_exactly_linear_network_is_rank_one():
    """σ(z) = z has σ' = 1, so G = aβᵀ exactly, β = Xᵀr/n with the residual of the chosen gradient."""
    for gradient, name in (("full", "distance_residual"), ("labels", "distance_labels")):
        p = claim.paper_problem(80, activation=(0.0, 1.0), gradient=gradient)
        m = measure_gradient(p, 2)
        assert getattr(m, name).values.max() < 1e-12
        assert (m.singular_values.values[:, 1] < 1e-12).all()


def test_largest_singular_values_equal_a_full_decomposition():
    A = np.random.default_rng(0).standard_normal((60, 90))
    np.testing.assert_allclose(largest_singular_values(A, 3), np.linalg.svd(A, compute_uv=False)[:3], rtol=1e-10)


def test_expansion_of_a_quadratic_activation_after_a_rank_one_step_leaves_only_the_cross_term():
    """σ = H₁ + c₂H₂: F − F₂ = 2c₂ (X̃W₀ᵀ)∘(c₁η X̃βaᵀ) exactly, computed here from scratch."""
    p = claim.paper_problem(60, activation=(0.0, 1.0, 0.25), exponent=0.29)
    from onestride.simulation.network import draw_batch, draw_network, step_gradient

    m = measure_equivalence(p, 2, [3])
    network = draw_network(p, 3)
    beta = step_gradient(p, network, 3).beta
    X = draw_batch(p, 3, "ridge_inputs", "ridge_noise", p.n).X
    cross = 2 * 0.25 * (X @ network.W0.T) * (p.eta * np.outer(X @ beta, network.a))
    expected = np.linalg.norm(cross, 2) / np.sqrt(p.n)
    assert m.distance_rank_one.values[0] == pytest.approx(expected, rel=1e-8)


def test_limit_model_with_no_free_power_is_random_features():
    from onestride.simulation.run import simulate

    p = claim.paper_problem(80, noise=0.3)
    limit = measure_limit(p, 2, 3)
    np.testing.assert_allclose(limit.train_loss.values[:, 0], simulate(p, 3).train_loss.values, rtol=1e-8)
    assert (np.diff(limit.train_loss.values, axis=1) < 0).all()  # every free power lowers the objective


PANELS = (
    Panel("a", "x", "y", (Series("line", [1, 2], [3, 4]), Series("dots", [1], [2], [0.1], "simulation")), logx=True),
    Panel("b", "x", "y", (Series("bars", [0, 1, 2], [1, 2], kind="histogram"),), verticals=[(1, "k")]),
)


def test_figure_files_hold_the_numbers_drawn(tmp_path):
    save(PANELS, tmp_path / "f")
    assert {p.name for p in tmp_path.iterdir()} == {"f.pdf", "f.png", "f.csv"}
    assert "a,dots,simulation,1,2,0.1" in to_csv(PANELS)
    assert len(draw(PANELS).axes) == 2


def test_svg_is_well_formed():
    from onestride.plot import to_svg

    assert ET.fromstring(to_svg(PANELS)).tag.endswith("svg")


def test_formulas_are_typeset_and_text_is_escaped():
    from onestride.report import _typeset

    assert str(_typeset("F_ℓ falls like n^(-0.2 ± 0.1)")) == "F<sub>ℓ</sub> falls like n<sup>-0.2 ± 0.1</sup>"
    assert str(_typeset("train_loss <b>")) == "train_loss &lt;b&gt;"


@pytest.mark.parametrize("quantity", ["train_gain", "test_gain"])
def test_distant_gains_lie_between_those_at_hand_and_the_limit(quantity):
    from onestride.experiments.claims_errors import ALPHAS, distant_gains
    from onestride.theory.predict import predict_grid

    near, far = distant_gains(quantity, 1000), distant_gains(quantity)
    problem = claim.paper_problem(1000, exponent=0.0)
    limit = getattr(predict_grid(problem, list(ALPHAS), [0.1], method="plateau"), quantity)[:, 0]
    for a, b, c in zip(near, far, limit, strict=True):
        assert 0 < a < b < 1.01 * c


@pytest.mark.parametrize("names", [("relu", "erf"), ("a rather long name, turned", "leaky_relu")])
def test_the_legend_hangs_below_the_words_of_the_axis(names):
    panel = Panel("", "activation", "gain", [Series("theory", [0, 1], [1, 2])], xticks=[0, 1], xnames=names)
    figure = draw([panel, panel])
    figure.draw_without_rendering()
    for axis in figure.axes:
        legend = axis.get_legend().get_window_extent()
        assert legend.y1 <= axis.xaxis.get_tightbbox().y0
        assert legend.y0 >= 0
