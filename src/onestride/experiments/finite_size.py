"""`finite-size`: simulation minus theory against 1/n, with an extrapolation to n → ∞."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import chi2

from onestride.compare import ERROR_TOLERANCE, Agreement, Check
from onestride.experiments.claim import FAILS, HOLDS, PARTLY, decide, marks, tally
from onestride.experiments.outcome import Outcome, Settings
from onestride.plot import Panel, Series
from onestride.problem import Problem, Step
from onestride.result import QUANTITIES, Estimate
from onestride.simulation.network import draw_batch
from onestride.simulation.run import simulate
from onestride.simulation.spectrum import measure_spectrum
from onestride.theory.predict import predict
from onestride.theory.spectrum import spectrum

STEP = Step(constant=2.0, exponent=0.3)
STEPPED = "η = 2n^0.3"
NAMES = {"train_loss": "ridge objective", "train_mse": "training error", "test_error": "test error"}
SPIKE = "first spike"


@dataclass(frozen=True)
class Fit:
    """gap = intercept + slope/n by weighted least squares; `p` is the probability of a worse χ²."""

    intercept: float
    error: float
    slope: float
    slope_error: float
    p: float

    def zero(self, seeds: int, among: int) -> Check:
        """Is the intercept 0 within ERROR_TOLERANCE? The degrees of freedom are those of one n, the fewest."""
        return Check(self.intercept, self.error, seeds, -ERROR_TOLERANCE, ERROR_TOLERANCE, among)


def run(settings: Settings) -> Outcome:
    """Relative distance of simulation from theory at several n, without and with the step."""
    ns, last = (
        settings.pick((40, 80, 160), (50, 100, 200, 400), (250, 500, 1000, 2000)),
        settings.seed_count(8, 120, 60),
    )
    counts = [last * ns[-1] // n for n in ns]
    gaps: dict[tuple[str, str], list[tuple[float, float]]] = {}
    rows: list[dict[str, Any]] = []
    theories = []
    for i, (n, seeds) in enumerate(zip(ns, counts, strict=True)):
        problem = Problem(n=n, d=n // 2, N=3 * n // 2, teacher=(0, 1, 0.25), noise=0.3, ridge=0.1, step=STEP)
        measured, theory = simulate(problem, seeds), predict(problem, throw=False)
        theories.append(theory)
        assert measured.untrained is not None
        assert theory.untrained is not None
        power = [np.mean(draw_batch(problem, s, "ridge_inputs", "ridge_noise", n).y ** 2) for s in range(seeds)]
        control = np.array(power) / (problem.target.second_moment + problem.noise**2) - 1
        for model, found, expected in (
            ("η = 0", measured.untrained, theory.untrained),
            (STEPPED, measured, theory),
        ):
            for name in QUANTITIES:
                relative = getattr(found, name).values / getattr(expected, name) - 1
                gaps.setdefault((model, NAMES[name]), []).append(adjusted(relative, control))
        leading = measure_spectrum(problem, max(4, seeds // 2), count=1).leading.values[:, 0]
        spike = Estimate(leading / spectrum(problem, density=False).leading[0] - 1)
        gaps.setdefault((STEPPED, SPIKE), []).append((float(spike.mean), float(spike.stderr)))
        for (model, quantity), values in gaps.items():
            rows.append({"model": model, "quantity": quantity, "n": n, "gap": values[-1][0], "stderr": values[-1][1]})
        settings.progress(
            sum(c * m**2 for c, m in zip(counts[: i + 1], ns, strict=False))
            / sum(c * m**2 for c, m in zip(counts, ns, strict=True))
        )
    fits = {key: extrapolate(ns, values) for key, values in gaps.items()}
    for (model, quantity), fit in fits.items():
        rows.append({"model": model, "quantity": quantity, "n": "→ ∞", "gap": fit.intercept, "stderr": fit.error})
    panels = []
    for title, kept in (
        ("random features, η = 0", [k for k in fits if k[0] == "η = 0"]),
        (f"after the step, {STEPPED}", [k for k in fits if k[0] != "η = 0" and k[1] != SPIKE]),
        ("position of the first spike", [k for k in fits if k[1] == SPIKE]),
    ):
        series, x = [], 1 / np.array(ns)
        for j, key in enumerate(kept):
            fit, y = fits[key], np.array(gaps[key])
            line = np.array([0.0, 1.05 * x[0]])
            series.append(Series(f"{key[1]}, fit", line, 100 * (fit.intercept + fit.slope * line), colour=j))
            shift = 1 + 0.02 * (j - (len(kept) - 1) / 2)
            points = np.append(0.0002 * (j - (len(kept) - 1) / 2) * 50 / ns[0], x * shift)  # the intercept comes first
            means, errors = np.append(fit.intercept, y[:, 0]), np.append(fit.error, y[:, 1])
            series.append(Series(key[1], points, 100 * means, 100 * errors, "simulation", j))
        panels.append(Panel(title, "1/n", "simulation / theory − 1 (%)", series, horizontals=[(0.0, "theory")]))
    slopes = {key: fit.slope / fit.slope_error for key, fit in fits.items()}
    zero = {
        key: fit.zero(max(last - 1, 2) if key[1] != SPIKE else max(4, last // 2), len(fits))
        for key, fit in fits.items()
    }
    steep = max(slopes, key=lambda key: abs(slopes[key]))
    return Outcome(
        name="finite-size",
        question="Does the distance between simulation and theory vanish as n → ∞?",
        claim="The profile theory is exact in the limit: what it misses at finite n falls like 1/n.",
        verdict=judge(zero),
        finding=(
            f"Intercepts of a straight line in 1/n through n = {', '.join(map(str, ns))}: "
            + "; ".join(f"{q}, {m}: {f.intercept:+.2%} ± {f.error:.2%}" for (m, q), f in fits.items())
            + f". 0 within {ERROR_TOLERANCE:.0%}: {tally(list(zero.values()))}. The smallest probability of a "
            f"worse χ² is {min(f.p for f in fits.values()):.2f}. The clearest slope is that of the {steep[1]} ({steep[0]}), "
            f"({fits[steep].slope:+.2f} ± {fits[steep].slope_error:.2f})/n.{marks(*theories)}"
        ),
        surprise=(
            f"The step makes the test error {_biased(gaps['η = 0', 'test error'][0], gaps[STEPPED, 'test error'][0], counts[0])}: at n = {ns[0]} it is {gaps['η = 0', 'test error'][0][0]:+.1%} ± "
            f"{gaps['η = 0', 'test error'][0][1]:.1%} from theory without it and {gaps[STEPPED, 'test error'][0][0]:+.1%} ± "
            f"{gaps[STEPPED, 'test error'][0][1]:.1%} with it; the spike that carries the gain lies "
            f"{gaps[STEPPED, SPIKE][0][0]:+.0%} ± {gaps[STEPPED, SPIKE][0][1]:.0%} from its predicted place."
        ),
        rows=rows,
        panels=tuple(panels),
        caption=(
            f"ReLU, teacher H₁ + H₂/4, noise 0.3, λ = 0.1, d = n/2, N = 3n/2, {STEPPED}, literal gradient, n = "
            f"{', '.join(map(str, ns))} with {', '.join(map(str, counts))} seeds (spike: half as many). Theory: profile theory at the same n "
            "(spike: level T2i). Errors are adjusted for the sample power of the labels. Lines: weighted least squares; the points at "
            "1/n = 0 are their intercepts. Points of one n are set slightly apart."
        ),
        columns=3,
    )


def adjusted(values: np.ndarray, control: np.ndarray) -> tuple[float, float]:
    """Mean of `values` and its error after regression on a control whose expectation is 0; without it below four values."""
    if values.size < 4:
        return float(values.mean()), float(Estimate(values).stderr)
    design = np.column_stack([np.ones_like(control), control])
    coefficients, *_ = np.linalg.lstsq(design, values, rcond=None)
    residual = values - design @ coefficients
    variance = residual @ residual / (values.size - 2) * np.linalg.inv(design.T @ design)[0, 0]
    return float(coefficients[0]), float(np.sqrt(variance))


def extrapolate(ns: Sequence[int], values: Sequence[tuple[float, float]]) -> Fit:
    """Straight line in 1/n through (mean, error) at every n."""
    y, error = np.array(values).T
    design = np.column_stack([np.ones(len(ns)), 1 / np.array(ns, float)]) / error[:, None]
    covariance = np.linalg.inv(design.T @ design)
    intercept, slope = covariance @ design.T @ (y / error)
    misfit = float(((y / error - design @ np.array([intercept, slope])) ** 2).sum())
    errors = np.sqrt(np.diag(covariance))
    return Fit(float(intercept), float(errors[0]), float(slope), float(errors[1]), float(chi2.sf(misfit, len(ns) - 2)))


def _biased(without: tuple[float, float], step: tuple[float, float], seeds: int) -> str:
    """Whether |gap| is smaller or larger with the step; the two are measured on the same draws, so the error is an upper bound."""
    shrinks = Check(abs(without[0]) - abs(step[0]), float(np.hypot(without[1], step[1])), seeds, low=0)
    words = {Agreement.AGREES: "less biased, not more", Agreement.DIFFERS: "more biased"}
    return words.get(shrinks.outcome, "neither clearly more nor less biased")


def judge(zero: dict[tuple[str, str], Check]) -> str:
    """Holds when every intercept is shown to be 0 within ERROR_TOLERANCE; names those that are not."""
    away = [f"{quantity} ({model})" for (model, quantity), found in zero.items() if found.differs]
    some = FAILS if len(away) > len(zero) / 2 else f"{PARTLY}: not for {', '.join(away)}"
    return decide(zero.values(), holds=f"{HOLDS} within {ERROR_TOLERANCE:.0%}", fails=some)
