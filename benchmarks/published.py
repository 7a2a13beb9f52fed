"""Numbers published by others against our simulation: gradient descent on one reused batch.

    python benchmarks/published.py [--inputs 2000] [--runs 16]

Source: IdePHICS/benefit-reusing-batch at 5469d41, data/*.npz (D = 5,000, n = 3 D, 32 runs): two ReLU neurons with readout ±1/√2, teacher
tanh(z₁ + He₃(z₂)), seven points of full-batch descent on one batch, learning rate 0.2, W₀ across the teacher. In our words: a step of
η = 0.2·3 on the literal gradient, rows of W₀ on the sphere, the test error half the mean square, without noise.
"""

from __future__ import annotations

import argparse

import numpy as np

import onestride as one
from onestride.simulation.network import Network, draw_batch, draw_directions, gradient

TEST_ERROR = (0.4917, 0.4202, 0.3859, 0.3683, 0.3587, 0.3534, 0.3504)  # before each step, ± 0.0006
OVERLAP = {1: 0.0757, 6: 0.2147}  # of the first neuron with the first direction, after that many steps


def teacher(z: np.ndarray) -> np.ndarray:
    return np.tanh(z[..., 0] + z[..., 1] ** 3 - 3 * z[..., 1])


def descend(problem: one.Problem, seed: int) -> tuple[list[float], list[float]]:
    """Test errors and overlaps before each of the steps, and after the last but one."""
    directions = draw_directions(problem, seed)
    rng = np.random.default_rng(seed)
    across = rng.standard_normal((2, problem.d))
    across -= across @ directions.T @ directions
    W = np.linalg.qr(across.T)[0].T
    a = np.array([1.0, -1.0]) / np.sqrt(2)
    train = draw_batch(problem, seed, "step_inputs", None, problem.n)
    test = draw_batch(problem, seed, "test_inputs", None, problem.n)
    errors, overlaps = [], []
    for _ in TEST_ERROR:
        output = problem.sigma(test.X @ W.T) @ a
        errors.append(float(((test.signal - output) ** 2).mean() / 2))
        overlaps.append(float(W[0] @ directions[0]))
        W = W + problem.eta * gradient(problem, Network(W, a), train).G
    return errors, overlaps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=16)
    given = parser.parse_args()
    problem = one.Problem(
        n=3 * given.inputs,
        d=given.inputs,
        N=2,
        centred=False,
        teacher=teacher,
        directions=2,
        step=one.Step(constant=0.6),
    )
    found = [descend(problem, seed) for seed in range(given.runs)]
    for name, values, published in (
        ("test error", np.array([e for e, _ in found]), dict(enumerate(TEST_ERROR))),
        ("overlap", np.array([m for _, m in found]), OVERLAP),
    ):
        mean, stderr = values.mean(0), values.std(0, ddof=1) / np.sqrt(given.runs)
        for step, number in published.items():
            print(f"{name} after {step} steps: {mean[step]:.4f} ± {stderr[step]:.4f}, published {number:.4f}")


if __name__ == "__main__":
    main()
