"""The best step, penalty and split of a budget of samples for five problems, and what each is worth alone.

    python benchmarks/best_split.py [--seeds 8]

Each has as many samples for the step as for the fit to begin with, and λ = 0.1, η = √n. At the optimum the network is simulated with and
without its step.
"""

from __future__ import annotations

import argparse
import os
import time

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import onestride as one

STEP = one.Step(constant=1.0, exponent=0.5)
H12 = (0, 1, 0.7071067812)
FOUR = (0, 1, 0.7071067812, 0.4082482905, 0.2041241452)
PROBLEMS = {
    "H₁ + H₂/√2, ReLU, noise 0.5": one.Problem(n=400, d=150, N=300, teacher=H12, noise=0.5, step=STEP),
    "the same with ten times the samples": one.Problem(n=4000, d=150, N=300, teacher=H12, noise=0.5, step=STEP),
    "H₁, tanh, noise 1": one.Problem(n=400, d=200, N=400, activation="tanh", teacher=(0, 1), noise=1.0, step=STEP),
    "four degrees, shifted erf, no noise": one.Problem(
        n=800, d=200, N=400, activation="shifted_erf", teacher=FOUR, step=STEP
    ),
    "H₁ + H₂/√2, softplus, noise 0.5, power-law inputs": one.Problem(
        n=400, d=200, N=300, activation="softplus", teacher=H12, noise=0.5, step=STEP, inputs="power"
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8)
    seeds = parser.parse_args().seeds
    print(
        "| problem | budget | as given | η alone | λ alone | split alone | all three | η | λ | share of the step | simulated there | "
        "gain over no step, predicted | simulated | s |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for name, problem in PROBLEMS.items():
        started = time.process_time()
        found = one.optimum(problem, over=("step", "ridge", "split"))
        seconds, best = time.process_time() - started, found.problem
        measured = one.simulate(best, seeds=seeds)
        alone = " | ".join(f"{found.alone[v]:.4g}" for v in ("step", "ridge", "split"))
        star = {
            name: "*" if name in found.at_boundary else "" for name in found.over
        }  # it still falls where the search ends
        budget = best.n + best.step_samples
        print(
            f"| {name} | {budget} | {found.before:.4g} | {alone} | {found.test_error:.4g} | {found.step:.3g}{star['step']} | {found.ridge:.2g}{star['ridge']} | "
            f"{best.step_samples / budget:.0%}{star['split']} | {measured.test_error.mean:.4g} ± {measured.test_error.stderr:.2g} | {found.prediction.test_gain:.3g} | "
            f"{measured.test_gain.mean:.3g} ± {measured.test_gain.stderr:.2g} | {seconds:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
