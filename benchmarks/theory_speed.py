"""Time the theories on one core: OPENBLAS_NUM_THREADS=1 python benchmarks/theory_speed.py"""

import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import onestride as one
from onestride.theory.profile.build import build_model
from onestride.theory.profile.equations import solve
from onestride.theory.profile.errors import errors_at
from onestride.theory.profile.strength import LEVELS


def timed(f, repeats=1):
    start = time.perf_counter()
    for _ in range(repeats):
        f()
    return (time.perf_counter() - start) / repeats


def main():
    print("method        gradient  what                                        seconds")
    alphas, lams = np.linspace(0.01, 0.49, 100), np.geomspace(1e-3, 1, 100)
    for gradient in ("labels", "full"):
        problem = one.Problem(
            n=1500, d=750, N=2250, teacher=(0, 1, 0.7071), gradient=gradient, step=one.Step(exponent=0.4)
        )
        for method in ("plateau", "finite-step"):
            one.predict(problem, method=method, throw=False)
            seconds = timed(lambda m=method, p=problem: one.predict_grid(p, alphas, lams, method=m))
            print(f"{method:12s}  {gradient:8s}  10,000 predictions on a grid               {seconds:8.3f}")
        for level in LEVELS:
            build_model(problem, level)  # tables of the activation and the law of M: once per problem
            setup = timed(lambda level=level, p=problem: build_model(p, level), 3)
            profile = build_model(problem, level)
            cold = timed(lambda x=profile: [errors_at(x, solve(x, lam)) for lam in (1e-3, 1e-2, 0.1, 1.0)], 2) / 4
            grid = timed(
                lambda level=level, p=problem: one.predict_grid(p, [0.2, 0.4], np.geomspace(1, 1e-3, 13), level=level)
            )
            for what, value in (
                ("set-up per step size", setup),
                ("one prediction, cold start, after set-up", cold),
                ("one prediction on a grid, all included", grid / 39),
            ):
                print(f"profile {level:4s}  {gradient:8s}  {what:42s} {value:8.4f}")


if __name__ == "__main__":
    main()
