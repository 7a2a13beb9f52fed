"""The main job at a tiny size: every claim is there, the page is self-contained, nothing is half-written."""

import json
import math
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import onestride as one
from onestride.experiments import catalogue as job
from onestride.experiments.catalogue import PAPER, QUESTIONS
from onestride.experiments.kit import paper_problem
from onestride.experiments.outcome import Settings
from onestride.experiments.verdict import Verdict, growth
from onestride.plot import Panel, Series, draw, save, to_csv
from onestride.report import provenance, write_outcome, write_report
from onestride.result import Estimate
from onestride.simulation.equivalent import measure_distance, measure_limit
from onestride.simulation.gradient import largest_singular_values, measure_gradient
from onestride.web.presets import addresses

WHERE = provenance(1.0, size="small", scale=0.3)
SOME = ("rank-one-gradient", "expansion")  # every one of PAPER runs in test_catalogue


@pytest.fixture(scope="module")
def outcomes():
    tiny = pytest.MonkeyPatch()
    tiny.setattr(job, "SCALE", 0.3)
    tiny.setattr(job, "PAPER", {name: PAPER[name] for name in SOME})
    seen = []
    yield job.reproduce("small", progress=lambda done, total: seen.append(done / total))
    tiny.undo()
    assert seen == sorted(seen)
    assert seen[-1] == 1


def test_every_claim_of_the_paper_has_an_experiment():
    numbers = [number for numbers in PAPER.values() for number in numbers.split(", ")]
    assert set(numbers) == {str(k) for k in range(1, 11)}
    assert numbers[0] == "1"
    assert numbers[-1] == "10"
    assert set(PAPER) <= set(QUESTIONS)
    assert job.OVERVIEW in PAPER


def test_every_experiment_of_the_paper_has_a_line(outcomes):
    assert [o.name for o in outcomes] == list(SOME)
    for o in outcomes:
        assert o.judgement.verdict is not Verdict.FOUND
        assert len(o.judgement.finding) > 40
        assert "nan" not in o.judgement.finding.split()


def test_every_verdict_has_a_colour():
    style = (Path(one.__file__).parent / "templates" / "style.css.jinja").read_text(encoding="utf-8")
    assert all(f".{verdict.replace(' ', '-')}" in style for verdict in Verdict if verdict is not Verdict.FOUND)


def test_numbers_that_are_not_finite_are_null_in_every_file(outcomes, tmp_path):
    first = outcomes[0]
    rows = [{"theory": math.nan, "measured": 1.0}]
    drawn = replace(first.figure, panels=PANELS)  # drawing the real one is another test's
    odd = replace(first, judgement=replace(first.judgement, rows=rows), figure=drawn)
    write_report([odd], {"seconds": math.inf}, tmp_path)
    write_outcome(odd, {"seconds": math.inf}, tmp_path)

    def refuse(word):
        raise ValueError(f"{word} is no JSON")

    files = {path.name: json.loads(path.read_text("utf-8"), parse_constant=refuse) for path in tmp_path.glob("*.json")}
    assert files["claims.json"][0]["rows"] == [{"theory": None, "measured": 1.0}]
    assert files[f"{first.name}.json"]["rows"] == [{"theory": None, "measured": 1.0}]
    assert files["provenance.json"] == {"seconds": None}


def test_sizes_of_a_part_of_an_experiment():
    table = {"n": (400, 1600, 6000), "ns": ((100, 200), (400, 1600), (500, 1000)), "seeds": (4, 8, 8)}
    part = Settings("standard", scale=0.6).of(table)
    assert (part.n, part.ns, part.seeds) == (960, (240, 960), 8)
    assert Settings("small").of({"n": (150, 1, 1)}).n == 150


def test_report_is_complete_and_self_contained(outcomes, tmp_path):
    page = write_report(outcomes, WHERE, tmp_path / "out", explorer=addresses()).read_text(encoding="utf-8")
    for o in outcomes:
        assert f'id="{o.name}"' in page
    assert page.count("<svg") == len(outcomes)
    for outside in ("src=", "@import", "<link", "<script"):
        assert outside not in page
    files = {path.name for path in (tmp_path / "out").iterdir()}
    stems = {name.rsplit(".", 1)[0] for name in files if name.endswith(".pdf")}
    assert stems == {f"claim-{name}" for name in SOME}
    for name in SOME:  # beside every claim its numbers, its figure, the command and the explorer
        for link in (f'href="claim-{name}.csv"', f'href="claim-{name}.pdf"', f"onestride experiment {name}<"):
            assert link in page
        assert f'href="{addresses()[name].replace("&", "&amp;")}"' in page
    assert "prefers-color-scheme: dark" in page
    assert all({f"{s}.png", f"{s}.csv"} <= files for s in stems)
    assert {"report.html", "claims.csv", "claims.json", "claims.md", "provenance.json"} <= files
    text = (tmp_path / "out" / "claims.md").read_text("utf-8")
    shown = re.findall(r"^!\[.*\]\((.*)\)\n\n\*.+\*$", text, re.MULTILINE)
    assert sorted(shown) == [f"{s}.png" for s in sorted(stems)]  # every caption has its figure above it
    assert all(len(re.split(r"(?<!\\)\|", line)) == 6 for line in text.splitlines() if line.startswith("|"))
    json.loads((tmp_path / "out" / "claims.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)


def test_report_into_a_file_is_a_sentence_for_the_user(outcomes, tmp_path):
    (tmp_path / "taken").write_text("", encoding="utf-8")
    with pytest.raises(OSError, match="taken"):
        write_report(outcomes[:1], WHERE, tmp_path / "taken")


@pytest.mark.statistical(rate=1e-5)
def test_growth_recovers_a_power_law(seed):
    rng = np.random.default_rng(1000 * seed)
    ns = (100, 200, 400)
    estimates = [Estimate(3 * n**-0.5 * (1 + 0.01 * rng.standard_normal(50))) for n in ns]
    slope, stderr = growth(ns, estimates)
    assert abs(slope + 0.5) < 5 * stderr
    assert stderr < 0.01


def test_gradient_of_an_exactly_linear_network_is_rank_one():
    """σ(z) = z has σ' = 1, so G = aβᵀ exactly, β = Xᵀr/n with the residual of the chosen gradient."""
    for gradient, name in (("full", "distance_residual"), ("labels", "distance_labels")):
        p = paper_problem(80, activation=(0.0, 1.0), gradient=gradient)
        m = measure_gradient(p, 2)
        assert getattr(m, name).values.max() < 1e-12
        assert (m.singular_values.values[:, 1] < 1e-12).all()


def test_largest_singular_values_equal_a_full_decomposition():
    A = np.random.default_rng(0).standard_normal((60, 90))
    np.testing.assert_allclose(largest_singular_values(A, 3), np.linalg.svd(A, compute_uv=False)[:3], rtol=1e-10)


def test_expansion_of_a_quadratic_activation_after_a_rank_one_step_leaves_only_the_cross_term():
    """σ = H₁ + c₂H₂: F − F₂ = 2c₂ (X̃W₀ᵀ)∘(c₁η X̃βaᵀ) exactly, computed here from scratch."""
    p = paper_problem(60, activation=(0.0, 1.0, 0.25), exponent=0.29)
    from onestride.simulation.network import draw_batch, draw_network, step_gradient

    m = measure_distance(p, 2, [3])
    network = draw_network(p, 3)
    beta = step_gradient(p, network, 3).beta
    X = draw_batch(p, 3, "ridge_inputs", "ridge_noise", p.n).X
    cross = 2 * 0.25 * (X @ network.W0.T) * (p.eta * np.outer(X @ beta, network.a))
    expected = np.linalg.norm(cross, 2) / np.sqrt(p.n)
    assert m.distance_rank_one.values[0] == pytest.approx(expected, rel=1e-8)


def test_limit_model_with_no_free_power_is_random_features():
    from onestride.simulation.run import simulate

    p = paper_problem(80, noise=0.3, constant=0.0)
    limit = measure_limit(p, 2, 3)
    np.testing.assert_allclose(limit.train_loss.values[:, 0], simulate(p, 3).train_loss.raw.values, rtol=1e-8)
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

    assert str(_typeset("F_ℓ falls like n^(-0.2 ± 0.1)")) == "F<sub>ℓ</sub> falls like n<sup>−0.2 ± 0.1</sup>"
    assert str(_typeset("c⋆_k, c_{>1}Z at -3")) == "c⋆<sub>k</sub>, c<sub>&gt;1</sub>Z at −3"
    assert str(_typeset("train_loss <b>")) == "train_loss &lt;b&gt;"
