"""`finite-size`: simulation minus theory against 1/n, with an extrapolation to n → ∞."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.special import chdtrc

from onestride.comparison import ERROR_TOLERANCE, Agreement, Check
from onestride.experiments.kit import problem_at
from onestride.experiments.outcome import Figure, Judgement, Progress
from onestride.experiments.verdict import FAILS, HOLDS, PARTLY, decide, marks, tally
from onestride.plot import Panel, Series
from onestride.problem import Problem
from onestride.result import QUANTITIES, Estimate, Prediction
from onestride.simulation.run import simulate
from onestride.simulation.spectrum import measure_spectrum
from onestride.theory.predict import predict
from onestride.theory.spectrum import spectrum

CLAIM = "The profile theory is exact in the limit: what it misses at finite n falls like 1/n."
SIZES = {"ns": ((40, 80, 160), (50, 100, 200, 400), (250, 500, 1000, 2000)), "seeds": (8, 120, 60)}
PLAIN, STEPPED = "η = 0", "η = 2n^0.3"
NAMES = {"train_loss": "ridge objective", "train_mse": "training error", "test_error": "test error"}
SPIKE = "first spike"
Key = tuple[str, str]  # model and quantity
Number = tuple[float, float]  # a mean and its error


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


@dataclass(frozen=True)
class Gaps:
    """Relative distance of simulation from theory, for every model and quantity one number at each n."""

    ns: Sequence[int]
    counts: Sequence[int]  # seeds at each n
    gaps: dict[Key, list[Number]]
    theory: list[Prediction]

    @property
    def fits(self) -> dict[Key, Fit]:
        """Straight lines in 1/n."""
        return {key: extrapolate(self.ns, values) for key, values in self.gaps.items()}


def measure(size: SimpleNamespace, progress: Progress) -> Gaps:
    """Relative distance of simulation from theory at several n, without and with the step."""
    ns, counts = size.ns, [size.seeds * size.ns[-1] // n for n in size.ns]
    cost = np.cumsum([seeds * n**2 for n, seeds in zip(ns, counts, strict=True)])
    gaps: dict[Key, list[Number]] = {}
    theory = []
    for n, seeds, done in zip(ns, counts, cost, strict=True):
        problem = problem_at(n, teacher=(0, 1, 0.25), noise=0.3, constant=2.0, exponent=0.3)
        theory.append(predict(problem, throw=False))
        for key, gap in _gaps(problem, seeds, theory[-1], device=size.device).items():
            gaps.setdefault(key, []).append(gap)
        progress(done / cost[-1])
    return Gaps(ns, counts, gaps, theory)


def _gaps(problem: Problem, seeds: int, theory: Prediction, *, device: str) -> dict[Key, Number]:
    """At one n."""
    measured = simulate(problem, seeds, device=device)
    models = {PLAIN: (measured.untrained, theory.untrained), STEPPED: (measured, theory)}
    gaps = {
        (model, NAMES[name]): Estimate(getattr(found, name).values / getattr(expected, name) - 1)
        for model, (found, expected) in models.items()
        for name in QUANTITIES
    }
    leading = measure_spectrum(problem, max(4, seeds // 2), count=1, device=device).leading.values[:, 0]
    gaps[STEPPED, SPIKE] = Estimate(leading / spectrum(problem, density=False).leading[0] - 1)
    return {key: (float(gap.mean), float(gap.stderr)) for key, gap in gaps.items()}


def extrapolate(ns: Sequence[int], values: Sequence[tuple[float, float]]) -> Fit:
    """Straight line in 1/n through (mean, error) at every n."""
    y, error = np.array(values).T
    design = np.column_stack([np.ones(len(ns)), 1 / np.array(ns, float)]) / error[:, None]
    covariance = np.linalg.inv(design.T @ design)
    intercept, slope = covariance @ design.T @ (y / error)
    misfit = float(((y / error - design @ np.array([intercept, slope])) ** 2).sum())
    errors = np.sqrt(np.diag(covariance))
    return Fit(float(intercept), float(errors[0]), float(slope), float(errors[1]), float(chdtrc(len(ns) - 2, misfit)))


def judge(data: Gaps) -> Judgement:
    """Is the extrapolated gap 0 for every quantity, and which slope is clearest?"""
    fits, last = data.fits, data.counts[-1]
    seeds = {key: max(4, last // 2) if key[1] == SPIKE else last for key in fits}
    zero = {key: fit.zero(seeds[key], len(fits)) for key, fit in fits.items()}
    model, quantity = steep = max(fits, key=lambda key: abs(fits[key].slope / fits[key].slope_error))
    rows = [_row(key, n, values[i]) for i, n in enumerate(data.ns) for key, values in data.gaps.items()]
    without, step, spike = (data.gaps[k][0] for k in ((PLAIN, "test error"), (STEPPED, "test error"), (STEPPED, SPIKE)))
    worst = min(f.p for f in fits.values())
    return Judgement(
        words=words(zero),
        finding=(
            f"Intercepts of a straight line in 1/n through n = {', '.join(map(str, data.ns))}: "
            + "; ".join(f"{q}, {m}: {f.intercept:+.2%} ± {f.error:.2%}" for (m, q), f in fits.items())
            + f". Those that are 0 within {ERROR_TOLERANCE:.0%}: {tally(list(zero.values()))}. The smallest probability of a "
            f"worse χ² is {'below 0.01' if worst < 0.01 else f'{worst:.2f}'}. The clearest slope is that of the {quantity} ({model}), "
            f"({fits[steep].slope:+.2f} ± {fits[steep].slope_error:.2f})/n.{marks(*data.theory)}"
        ),
        surprise=(
            f"The step makes the test error {_biased(without, step, data.counts[0])}: at n = {data.ns[0]} it is {without[0]:+.1%} ± "
            f"{without[1]:.1%} from theory without it and {step[0]:+.1%} ± {step[1]:.1%} with it; the spike that carries the gain lies "
            f"{spike[0]:+.0%} ± {spike[1]:.0%} from its predicted place."
        ),
        rows=rows + [_row(key, "→ ∞", (fit.intercept, fit.error)) for key, fit in fits.items()],
    )


def words(zero: dict[tuple[str, str], Check]) -> str:
    """Holds when every intercept is shown to be 0 within ERROR_TOLERANCE; names those that are not."""
    away = [f"{quantity} ({model})" for (model, quantity), found in zero.items() if found.differs]
    some = FAILS if len(away) > len(zero) / 2 else f"{PARTLY}: not for {', '.join(away)}"
    return decide(zero.values(), holds=f"{HOLDS} within {ERROR_TOLERANCE:.0%}", fails=some)


def _biased(without: tuple[float, float], step: tuple[float, float], seeds: int) -> str:
    """Whether |gap| is smaller or larger with the step; the two are measured on the same draws, so the error is an upper bound."""
    shrinks = Check(abs(without[0]) - abs(step[0]), float(np.hypot(without[1], step[1])), seeds, low=0)
    words = {Agreement.AGREES: "less biased, not more", Agreement.DIFFERS: "more biased"}
    return words.get(shrinks.outcome, "neither clearly more nor less biased")


def _row(key: Key, n: int | str, gap: Number) -> dict[str, Any]:
    return {"model": key[0], "quantity": key[1], "n": n, "gap": gap[0], "stderr": gap[1]}


def draw(data: Gaps) -> Figure:
    """Every gap against 1/n with its line; the points at 1/n = 0 are the intercepts."""
    groups: dict[str, list[Key]] = {
        "random features, η = 0": [key for key in data.gaps if key[0] == PLAIN],
        f"after the step, {STEPPED}": [key for key in data.gaps if key[0] == STEPPED and key[1] != SPIKE],
        "position of the first spike": [key for key in data.gaps if key[1] == SPIKE],
    }
    label, zero = "simulation / theory − 1 (%)", [(0.0, "theory")]
    panels = [
        Panel(title, "1/n", f"spike: {label}" if keys[0][1] == SPIKE else label, _lines(data, keys), horizontals=zero)
        for title, keys in groups.items()
    ]
    caption = (
        f"ReLU, teacher H₁ + H₂/4, noise 0.3, λ = 0.1, d = n/2, N = 3n/2, {STEPPED}, literal gradient, n = "
        f"{', '.join(map(str, data.ns))} with {', '.join(map(str, data.counts))} seeds (spike: half as many). Theory: profile theory at the same n "
        "(spike: its level isotropic). Errors are freed of the luck of a draw whose law is known; points are means ± standard errors over seeds. "
        "Lines: weighted least squares in 1/n; the points at 1/n = 0 are their intercepts. Points of one n are set slightly apart."
    )
    (model, quantity), fit = max(data.fits.items(), key=lambda item: abs(item[1].intercept))
    title = (
        f"Extrapolated to n → ∞ the furthest of simulation from theory is the {quantity} ({model}): "
        f"{fit.intercept:+.1%} ± {fit.error:.1%}"
    )
    return Figure(panels, caption, columns=3, title=title)


def _lines(data: Gaps, keys: Sequence[Key]) -> list[Series]:
    series, x = [], 1 / np.array(data.ns)
    line = np.array([0.0, 1.05 * x[0]])
    for j, key in enumerate(keys):
        fit, side = data.fits[key], j - (len(keys) - 1) / 2
        j = 3 if key[1] == SPIKE else j
        series.append(Series(f"{key[1]}, fit", line, 100 * (fit.intercept + fit.slope * line), colour=j))
        places = np.append(0.0002 * side * 50 / data.ns[0], x * (1 + 0.02 * side))  # the intercept comes first
        means, errors = np.array([(fit.intercept, fit.error), *data.gaps[key]]).T
        series.append(Series(key[1], places, 100 * means, 100 * errors, "simulation", j))
    return series
