"""Slopes of the test error against differences of errors that are solved for, and the descent that uses them."""

from __future__ import annotations

import numpy as np
import pytest

import onestride as one
from onestride.theory.descent import descend
from onestride.theory.profile.errors import errors
from onestride.theory.profile.same_batch import ratio
from onestride.theory.profile.slopes import slopes
from onestride.theory.registry import Move

H, NODES = 1e-3, 21
PROBLEMS = {
    "isotropic": {},
    "strong step": {"step": one.Step(exponent=0.5), "ridge": 0.01},
    "tanh": {"activation": "tanh"},
    "labels": {"gradient": "labels"},
    "gaussian weights": {"weights": "gaussian"},
    "constant readout": {"readout": "constant", "activation": "tanh"},
    "signs": {"readout": "rademacher"},
    "more samples for the step": {"n_step": 300},
    "fewer samples for the step": {"n_step": 80},
    "directions": {"directions": 2},
    "covariance": {"inputs": one.Covariance.spiked(50, 3.0)},
    "several steps": {"steps": 2, "step": one.Step(exponent=0.1)},
}


def problem(**changes) -> one.Problem:
    fields = {"n": 160, "d": 50, "N": 100, "teacher": (0, 1, 0.5), "noise": 0.3, "step": one.Step(exponent=0.3)}
    return one.Problem(**(fields | changes))


def moves(p: one.Problem) -> list[Move]:
    """In log λ, log η, and of one sample from the fit to the step, η as it is."""

    def stepped(by: float) -> one.Problem:
        return p.replace(step=p.step.replace(constant=p.step.constant * float(np.exp(by))))

    def shared(more: int) -> one.Problem:
        n, alpha = p.n - more, p.step.exponent
        return p.replace(n=n, n_step=p.step_samples + more, step=one.Step(constant=p.eta / n**alpha, exponent=alpha))

    samples = [Move(shared(-1), shared(1), -1 / p.n, 1 / p.n)] if p.fresh else []
    penalty = [p.replace(ridge=p.ridge * float(np.exp(by))) for by in (-H, H)]
    return [Move(*penalty, -H, H), Move(stepped(-H), stepped(H), -H, H), *samples]


def error_of(p: one.Problem) -> float:
    return float(errors(p, [p.step], [p.ridge], nodes=NODES, checked=False).test_error[0, 0])


def differences(all_moves: list[Move]) -> np.ndarray:
    sides = [[error_of(at) for at in move[:2]] for move in all_moves]
    return np.array([np.log(b / a) / (move.high - move.low) for move, (a, b) in zip(all_moves, sides, strict=True)])


@pytest.mark.parametrize("name", PROBLEMS)
def test_slopes_are_those_of_errors_solved_for(name):
    """Penalty and step to 1e-5; samples, which are whole, to what a difference of one of them is worth, 2e-4."""
    p = problem(**PROBLEMS[name])
    found, slope = slopes(p, moves(p), nodes=NODES)
    assert found.test_error[0, 0] == pytest.approx(error_of(p), rel=1e-9)
    np.testing.assert_array_less(np.abs(slope - differences(moves(p))), [1e-5, 1e-5, 2e-4])


def test_one_side_is_enough():
    p = problem()
    both, above = moves(p)[1], moves(p)[1]._replace(below=p, low=0.0)
    (central, forward) = slopes(p, [both, above], nodes=NODES)[1]
    assert forward == pytest.approx(central, abs=H)
    assert forward != central


@pytest.mark.long
def test_slopes_on_the_samples_of_the_step():
    """Both fits' ratio along the step and the penalty: its groups of rows change on the way, so a parabola through seven values tells."""
    p, far = problem(fresh=False, readout="rademacher"), np.linspace(-0.3, 0.3, 7)
    fresh = p.replace(fresh=True)
    found = slopes(p, moves(p), nodes=NODES)[1] - slopes(fresh, moves(fresh)[:2], nodes=NODES)[1]
    penalties = ratio(p, p.ridge * np.exp(far))[2]
    steps = [p.replace(step=p.step.replace(constant=p.step.constant * float(np.exp(x)))) for x in far]
    sizes = [ratio(at, np.array([p.ridge]))[2, 0] for at in steps]
    known = [np.polyfit(far, np.log(values), 2)[1] for values in (penalties, sizes)]
    assert np.abs(known).max() > 0.02
    np.testing.assert_allclose(found, known, atol=0.005)


def test_no_slopes_where_there_are_no_errors():
    p = problem(step=one.Step(exponent=1.5))
    found, slope = slopes(p, moves(p)[:2], nodes=NODES)
    assert np.isnan(found.test_error).all() == np.isnan(slope).all()


# ---------------------------------------------------------------------- descent


def bowl(x: np.ndarray) -> tuple[float, np.ndarray]:
    """A bent valley with its minimum at (1, 1)."""
    a, b = 0.3 * (x[0] - 1), x[1] - x[0] ** 2
    return float(a**2 + b**2), np.array([0.6 * a - 4 * x[0] * b, 2 * b])


def test_descent_finds_the_minimum_and_stops_at_bounds():
    wide = np.array([-5.0, -5.0]), np.array([5.0, 5.0])
    found = descend(bowl, np.array([-1.0, 2.0]), np.zeros(2), *wide)
    assert bowl(found)[0] < 1e-4
    held = descend(bowl, np.array([-1.0, 0.2]), np.ones(2), wide[0], np.array([0.5, 5.0]))
    assert held[0] == 0.5
    assert held[1] == pytest.approx(0.25, abs=0.01)


def test_descent_stays_where_there_are_numbers():
    def edge(x: np.ndarray) -> tuple[float, np.ndarray]:
        return (-float(x[0]), np.array([-1.0])) if x[0] < 0.7 else (np.inf, np.array([np.nan]))

    found = descend(edge, np.zeros(1), np.ones(1), np.array([-9.0]), np.array([9.0]))
    assert 0.69 < found[0] < 0.7
