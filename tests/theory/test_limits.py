"""Where the marks begin: a hundredth below its limit a number is not marked, a hundredth above it is."""

from types import SimpleNamespace

import numpy as np
import pytest

import onestride as one
from onestride.problem import Step
from onestride.theory import reliability, reliability_of_inputs, reliability_of_steps
from onestride.theory.direction import direction
from onestride.theory.table.errors import beyond_the_rows

BASE = {"n": 1000, "d": 100, "N": 600, "activation": "relu", "teacher": [0, 1, 0.5], "noise": 0.5, "step": Step()}


def problem(**changes):
    return one.Problem(**BASE | changes)


def path(**changes):
    """Neurons after several steps that nothing is wrong with."""
    end = {"weight": np.ones(1), "v": np.ones(1), "L": np.ones((1, 2)), "b": np.ones(1)} | changes.pop("end", {})
    return SimpleNamespace(**{"grown": 1.0, "luck": 0.0, "end": SimpleNamespace(**end)} | changes)


def off_by_steps(given, monkeypatch, found=None, changed=0.0, beyond=0.0):
    monkeypatch.setattr(reliability_of_steps, "travel", lambda _: found or path())
    monkeypatch.setattr(reliability_of_steps, "changed", lambda *_: np.array([[changed]]))
    monkeypatch.setattr(reliability_of_steps, "to_first_order", lambda *_: beyond)
    return reliability_of_steps.by_steps(given)


def patched(module, name, call):
    """What `call` says where a function of the module returns a number."""

    def off(number, monkeypatch):
        monkeypatch.setattr(module, name, lambda *_, **__: number)
        return call()

    return off


SEVERAL, TWO = problem(steps=2), problem(directions=2, step=Step(constant=1e-9))
HIDDEN = problem(teacher=[0, 0, 1], step=Step(constant=1e-9))
ALIKE = problem(d=40, readout="rademacher", steps=2)  # min(n, N) is 3/4 of the directions of degree two
OWN = problem(activation="erf", gradient="labels", fresh=False)
LENGTHS = problem(inputs="elliptic", step=Step.none())
ENTRIES = problem(inputs="student")
C2 = abs(problem().sigma.coefficients[2])


def noise(size, monkeypatch):
    monkeypatch.setattr(reliability, "residual_kurtosis", lambda _: 3.0)
    return reliability._by_step(problem(), size)


def alike(size, _):
    """Two steps that together move neurons by so much."""
    return reliability._alike(ALIKE.replace(step=Step(constant=size * np.sqrt(ALIKE.N) / (4 * C2))), 0.001)


def bent(size, monkeypatch):
    monkeypatch.setattr(reliability, "unlearned_stretch", lambda *_: 0.0)
    monkeypatch.setattr(reliability, "learned_direction", lambda *_, **__: SimpleNamespace(overlap=0.0))
    p = TWO.replace(activation="tanh", teacher=[0, 1, 0, 0.5])
    by_one = 3 * np.sqrt(2) * abs(p.sigma.coefficients[3]) * np.linalg.norm(p.target.tensor(3)) / p.d
    return reliability._by_unlearned_directions(p.replace(step=Step(constant=size / by_one)))


def exact(size, _):
    """Errors above these of linear labels without noise are described, after a step on inputs with a covariance."""
    p = problem(teacher=[0, 1], noise=0.0, inputs="ar1")
    return reliability._exact(p, 2 * 0.16 - size)


def own(size, _):
    power = direction(OWN).residual_power
    return reliability._by_own_share(OWN.replace(step=Step(constant=size * np.sqrt(OWN.N / power) / OWN.phi)))


def loud(size, _):
    p = problem(readout="constant", N=1000, d=50, activation="elu", step=Step(exponent=0.5))
    labels = 2 * p.sigma.coefficients[2] ** 2 * p.N / p.d / size
    p = p.replace(teacher=[0, 0.1], noise=float(np.sqrt(labels - 0.01)))
    return reliability._loud(p)


def interpolating(distance, _):
    """n(√(N/n) − 1)² < 3 is where the mark begins."""
    n = 10**6
    p = problem(n=n, N=round(n * (1 + np.sqrt(6.0 - distance) / np.sqrt(n)) ** 2))
    return reliability._interpolating(p, 1e-12)


def beyond_rows(reach, _):
    """Four times the rows: 16e."""
    X = np.random.default_rng(0).standard_normal((60, 3))
    return beyond_the_rows(one.from_data(X, X[:, 0] + X[:, 1] ** 2, n=240), 0.1, reach * np.e, 1.0)


LIMITS = {
    "luck": (0.2, lambda x, m: off_by_steps(SEVERAL, m, path(luck=x))),
    "growth": (30.0, lambda x, m: off_by_steps(SEVERAL, m, path(grown=x))),
    "growth on one batch": (6.0, lambda x, m: off_by_steps(SEVERAL.replace(batch="reused"), m, path(grown=x))),
    "shrunk": (0.1, lambda x, m: off_by_steps(SEVERAL, m, path(end={"weight": np.array([1 - x, x]), "v": np.array([1, 0.4]), "L": np.zeros((2, 2))}))),
    "amplified": (0.15, lambda x, m: off_by_steps(SEVERAL, m, changed=x)),
    "further": (0.25, lambda x, m: off_by_steps(SEVERAL.replace(directions=2), m, beyond=x)),
    "stretched": (0.03 * 100 / np.sqrt(2), patched(reliability, "unlearned_stretch", lambda: reliability._by_unlearned_directions(TWO))),
    "stretched alike": (0.02 * 100 / np.sqrt(2), patched(reliability, "unlearned_stretch", lambda: reliability._by_unlearned_directions(TWO.replace(readout="rademacher")))),
    "stretched alone": (0.015 * 100 / np.sqrt(2), patched(reliability, "unlearned_stretch", lambda: reliability._by_the_unlearned_part(HIDDEN))),
    "stretched alone, alike": (0.01 * 100 / np.sqrt(2), patched(reliability, "unlearned_stretch", lambda: reliability._by_the_unlearned_part(HIDDEN.replace(readout="constant")))),
    "tied": (0.45, patched(reliability, "tie", lambda: reliability._tied(problem()))),
    "noise": (8.0, noise),
    "noise of few samples": (40.0 / 5, patched(reliability, "residual_kurtosis", lambda: reliability._by_step(problem(), 5.0))),
    "alike, two steps": (0.25, alike),
    "bent": (0.15, bent),
    "exact": (0.16, exact),
    "own share": (0.3, own),
    "loud": (0.3, loud),
    "edge": (3.0, interpolating),
    "fourth powers of lengths": (0.25, patched(reliability_of_inputs, "quartic_share", lambda: reliability_of_inputs.by_covariance(LENGTHS))),
    "few entries": (10.0, patched(reliability_of_inputs, "excess_kurtosis", lambda: reliability_of_inputs.by_few_entries(ENTRIES, 0.001))),
    "few entries, many neurons": (5.0, patched(reliability_of_inputs, "excess_kurtosis", lambda: reliability_of_inputs.by_few_entries(ENTRIES.replace(N=1200), 0.001))),
    "rows": (16.0, beyond_rows),
}  # fmt: skip


@pytest.mark.parametrize("name", LIMITS)
def test_a_mark_begins_at_its_limit(name, monkeypatch):
    limit, off = LIMITS[name]
    assert off(0.99 * limit, monkeypatch) is None
    assert off(1.01 * limit, monkeypatch) is not None
