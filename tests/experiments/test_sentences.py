"""Prose is computed: every sentence an experiment says has data in it, or is mathematics listed here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import onestride
from onestride.experiments import depth, full_training, inputs, several_steps
from onestride.experiments.outcome import Figure, Judgement, Outcome
from onestride.plot import Panel
from onestride.problem import Problem, Step
from onestride.result import Estimate
from onestride.theory.predict import predict_grid
from sentences import assert_says_what_was_run
from tolerances import deviations

FILES = sorted((Path(onestride.__file__).parent / "experiments").glob("*.py"))
TEXTS = ("finding", "surprise")  # what is said of a run; question, claim and caption describe it
# Sentences that no data could change: identities and definitions.
MATHEMATICS = (
    "The third vector is not the power: singular vectors are orthogonal",
    "F − F_ℓ itself should not vanish for α > 1/4: the gradient's fluctuations lengthen the rows of W",
    "For tanh, erf and sin c₂ = 0 is more than a vanishing coefficient: the network is an odd function",
    "After the exact gradient step and for α > 1/4 our theory says that a part must remain",
    "Alignment counts as surviving at half the two-layer network's overlap",
)


def template(node: ast.AST) -> str | None:
    """A string as written, with {} for every value in it; None for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(v.value) if isinstance(v, ast.Constant) else "{}" for v in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = template(node.left), template(node.right)
        return "{}" if left is None and right is None else (left or "{}") + (right or "{}")
    return None


def texts(tree: ast.Module) -> Iterator[str]:
    """What is said: texts given to Judgement, and sentences returned by helpers."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Judgement":
            given = [k.value for k in node.keywords if k.arg in TEXTS] + list(node.args[1:3])
            yield from (text for value in given if (text := template(value)) is not None)
        if isinstance(node, ast.Return) and node.value is not None and (text := template(node.value)) is not None:
            yield text


def constants(tree: ast.Module) -> list[str]:
    """Sentences without a value in them."""
    whole = [s.strip() for text in texts(tree) for s in re.split(r"(?<=[.?!])\s+(?=[A-ZΑ-Ω“])", text)]
    return [s for s in whole if len(s.split()) > 5 and "{}" not in s and not s.startswith(MATHEMATICS)]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_every_sentence_has_data_in_it(path):
    assert not constants(ast.parse(path.read_text(encoding="utf-8")))


def test_a_constant_sentence_is_noticed():
    """The texts that once were constants."""
    for text in (
        'Judgement(surprise="The plateaus of the limit are invisible: at this n both errors fall smoothly through every threshold.")',
        'Judgement(surprise=(f"At d = {d} all is well. Ten fresh steps learn the quadratic teacher and " "part of the cubic one."))',
        'Judgement(surprise="A tuned Gaussian kernel is no worse than the fully trained network on any of the tables.")',
        'Judgement("holds", f"{a} of {b} agree. The limits themselves are right and are approached slowly.", "", [])',
        'def f() -> str:\n    return "Nothing breaks at α = 1/2: errors and singular values pass through it smoothly."',
    ):
        assert len(constants(ast.parse(text))) == 1


@pytest.mark.parametrize(
    ("surprise", "words"),
    [
        ("At n = 1000 the prefactor is worth 0.20.", "n = 1000, which was not run"),
        ("Ten fresh steps learn it.", "'Ten'"),
        ("The kernel is better on cancer and digits.", "cancer, which was not run"),
    ],
)
def test_what_was_not_run_is_noticed(surprise, words):
    told = Judgement("holds", "n = 80.", surprise, [{"n": 80}])
    outcome = Outcome("x", "?", "c", told, Figure((Panel("t", "x", "y", ()),), "n = 80."))
    with pytest.raises(AssertionError, match=re.escape(words)):
        assert_says_what_was_run(outcome)


# ---------------------------------------------------------------- planted data, for the texts that once were constants


def test_full_training_speaks_of_its_own_tasks_only():
    values = 0.5 + 0.001 * deviations(4, len(full_training.METHODS))
    values[:, full_training.METHODS.index("kernel")] += 0.3
    text = full_training.judge(full_training.Data(100, 50, {"diabetes": Estimate(values)}, 1.0)).surprise
    assert "fully trained network: worse on diabetes" in text
    assert not any(word in text for word in ("cancer", "digits", "H₃"))


@pytest.mark.parametrize("steps", [3, 4])
def test_several_steps_counts_the_steps_that_were_taken(steps):
    values = Estimate(0.5 + 0.3 * deviations(3, 4, steps))
    paths = {(k, b, d): values for k in (1, 2, 3) for b in ("fresh", "reused") for d in (10, 20)}
    text = several_steps.judge(several_steps.Data((10, 20), paths)).surprise
    assert f"after {steps} steps at d = 20" in text
    assert f"seen {steps} times the samples" in text
    assert "ten" not in text.lower().split()


@pytest.mark.parametrize(("factor", "word"), [(1.0, "agrees"), (3.0, "differs")])
def test_inputs_says_of_the_table_what_its_numbers_say(factor, word):
    p = Problem(n=60, d=30, N=90, activation="softplus", ridge=0.1, step=Step())
    laws = (*inputs.INDEPENDENT, *inputs.DEPENDENT, "table", "gaussian rows")
    data = {law: 2.0 + 1e-3 * deviations(4, 3) for law in laws}
    data["table"] = factor * data["gaussian rows"] * (1 + 1e-4 * deviations(4, 3))
    theory = dict.fromkeys(("gaussian", *inputs.DEPENDENT, "table"), predict_grid(p, inputs.EXPONENTS, [p.ridge]))
    told = inputs.judge(inputs.Data({law: Estimate(values) for law, values in data.items()}, theory))
    (listed,) = re.findall(rf"{word}: ([^;.]*)", told.finding)
    assert "table" in listed
    assert "fails in the same way" not in told.surprise
    assert "theory of Gaussian ones" in told.surprise
    assert "theory of their own" in told.surprise


def test_depth_says_which_way_the_error_moves():
    values = np.zeros((4, len(depth.MODES), 1 + len(depth.EXPONENTS), 3))
    values[..., 0] = np.linspace(2, 3, 1 + len(depth.EXPONENTS))  # which rises
    p = Problem(n=60, d=30, N=90, noise=0.5, step=Step(exponent=0.5))
    told = depth.judge(depth.Data(p, Estimate(values), Estimate(0.5 + np.zeros((4, len(depth.GRADIENTS)))))).surprise
    assert re.search(r"test error changes by two-layer network 0\.\d", told)
