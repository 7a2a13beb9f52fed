"""`explain()`: what was measured on the table, what theory expects from half of its rows, and why a step helps or does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm, rankdata

from onestride._errors import InputError
from onestride._numerics import Array, hermite_table, root_factorials
from onestride.drawing import Panel, Series
from onestride.estimator._judge import FOLDS, STEPS, HeldOut, Move
from onestride.estimator._layer import Layer, Recipe
from onestride.estimator._network import FittedNetwork, Stage
from onestride.estimator._outlook import FEWEST_ROWS, MOST_ROWS, Sample, outlook
from onestride.estimator._ridge import Decomposition, best_penalty, decompose
from onestride.own_data import from_data
from onestride.problem import Problem, Step
from onestride.result import Result

DEGREES = 4
_ROOT_FACTORIALS = root_factorials(DEGREES)[1:]
LEADING = 5  # eigenvalues of the features that are reported
HEAVY = 30.0  # kurtosis of a column from which a few rows carry the fit
_FEW = 200  # rows
_LITTLE = 0.02  # shares of the target's variance below this count as none
_TOLD = 0.001  # changes of an error below this share of it are not told in figures


@dataclass(frozen=True)
class Facts:
    """Numbers of the table and of the fit, all relative to the target's variance.

    rows, inputs, width
        n (distinct rows), d, N.
    judged_rows
        How many of the rows the choices were made with, and what is below was measured on.
    constant
        Whether there is no target or it does not vary; the other numbers then say nothing.
    effective_dimension
        (tr Σ)²/tr Σ² of the standardised inputs: d for uncorrelated columns, 1 when all say the same.
    linear_share
        1 − leave-one-out error of linear ridge regression.
    hermite
        c_1 … c_4 of the target along the learned direction (its values turned into normal scores), largest output.
    hermite_null
        The size they reach where there is nothing, √(d/(n k!)) for d ≤ n: the direction was learned on the same rows.
    left_out, untrained_left_out
        Leave-one-out errors with and without the step. With a step this is optimistic; `held_out` is not.
    eigenvalues, untrained_eigenvalues
        The leading five of FᵀF/n, centred, with and without the step.
    spikes
        Eigenvalues with the step above the largest without it.
    aligned, untrained_aligned
        Share of the target in the five leading directions of the features.
    kurtosis
        The largest of a standardised column; 3 for a normal one.
    first_layer
        The layer that held-out rows chose to start from: dense, ranks, sparse or landmarks.
    sample
        Rows and layer that theory predicts from.
    """

    rows: int
    judged_rows: int
    inputs: int
    width: int
    activation: Any
    constant: bool
    effective_dimension: float
    linear_share: float
    hermite: tuple[float, ...]
    hermite_null: tuple[float, ...]
    left_out: float
    untrained_left_out: float
    held_out: HeldOut
    step_size: float
    eigenvalues: tuple[float, ...]
    untrained_eigenvalues: tuple[float, ...]
    spikes: int
    aligned: float
    untrained_aligned: float
    kurtosis: float
    first_layer: str = "dense"
    sample: Sample | None = field(default=None, repr=False, compare=False)

    @property
    def error(self) -> float:
        """The honest error: on held-out rows at the chosen step, else leave-one-out."""
        held_out = self.held_out
        return held_out.errors[held_out.steps.index(self.step_size)] if held_out.steps else self.left_out

    @property
    def signal_to_noise(self) -> float:
        """Explained over unexplained variance, at the honest error."""
        return max(1 - self.error, 0.0) / self.error if self.error > 0 else float("inf")


@dataclass(frozen=True, repr=False)
class Explanation(Result):
    """Theory beside measurement for a fitted estimator; `print` it for the words.

    `helps` is what held-out rows said; None when they were not asked.
    `predicted` and `predicted_untrained` are test errors relative to the target's variance that theory expects of this network from half of
    the rows, for as many rows as the held-out errors had, each at its best penalty; `with_more_rows` those of the chosen step at twice and
    ten times the rows. They are None with too few rows. `theory_message` says whether they agree with what was measured, or why not.
    `problem` is the table as a problem (`from_data`: a plain network on at most 1,500 of the rows, of the first output), for
    `predict`, `scaling` and `optimum`; None with fewer than 50 rows.
    """

    _told = (*(f"facts.{part.name}" for part in fields(Facts) if part.name != "sample"), "helps", "verdict", "reasons")
    _told += ("predicted", "predicted_untrained", "with_more_rows", "theory_message", "problem")
    _brief = ("helps", "facts.error", "predicted", "predicted_untrained")

    helps: bool | None
    verdict: str
    reasons: tuple[str, ...]
    facts: Facts = field(repr=False)
    problem: Problem | None = field(repr=False)
    predicted: float | None
    predicted_untrained: float | None
    with_more_rows: dict[int, float]
    theory_message: str

    def panels(self) -> Sequence[Panel]:
        """Held-out errors by the size of the step; where held-out rows were not asked, the leave-one-out errors."""
        held, f = self.facts.held_out, self.facts
        steps = held.steps or ((0.0, f.step_size) if f.step_size else (0.0,))
        errors = held.errors or ((f.untrained_left_out, f.left_out) if f.step_size else (f.untrained_left_out,))
        words = "held out" if held.steps else "left out one by one"
        series = [Series(words, steps, errors, kind="simulation")]
        return [Panel("error by step", "step size", "share of the variance", series)]

    def __str__(self) -> str:
        f = self.facts
        if f.constant:
            return self.verdict
        steps = zip(f.held_out.steps, f.held_out.errors, strict=True)
        profile = ", ".join(f"c{k} = {c:+.3f}" for k, c in enumerate(f.hermite, 1))
        before, after = (", ".join(f"{v:.3g}" for v in e) for e in (f.untrained_eigenvalues, f.eigenvalues))
        measured = {
            "held-out error": ", ".join(f"{e:.4g} at step {s:g}" for s, e in steps),
            "leave-one-out error": f"{f.untrained_left_out:.4g} without a step"
            + (f", {f.left_out:.4g} with it (optimistic)" if f.step_size else ""),
            "linear regression": f"{_explains(f.linear_share)}; signal to noise {f.signal_to_noise:.3g}",
            "effective dimension": f"{f.effective_dimension:.1f} of {f.inputs} inputs; {f.rows} distinct rows",
            "learned direction": f"{profile}; up to ±{f.hermite_null[0]:.3f} where there is nothing",
            "feature spectrum": f"leading {before} without a step",
            "": f"leading {after} with it" if f.step_size else "",
        }
        lines = [self.verdict, *(f"- {reason}" for reason in self.reasons)]
        lines.append("measured, as shares of the target's variance")
        lines += [f"  {name:<21}{words}" for name, words in measured.items() if words]
        lines.append("theory, from half of the rows")
        if self.predicted is not None and self.predicted_untrained is not None:
            errors = f"{self.predicted_untrained:.4g} without, {self.predicted:.4g} with a step"
            lines.append(f"  {'test error':<21}{errors} ({self.predicted / self.predicted_untrained - 1:+.1%})")
        return "\n".join([*lines, *(f"  {words}" for words in self.theory_message.split("; "))])


class Spectrum(NamedTuple):
    """Of a layer on the sample: the penalty, the left-out error, the eigenvalues, and the share of the target in the leading directions."""

    alpha: float
    left_out_error: float
    eigenvalues: Array
    aligned: float


@dataclass(frozen=True, eq=False)
class Measurable:
    """What the facts are measured from when they are asked for: rows, layers before and after the step, and regressions that the fit needed."""

    Z: Array
    Y: Array
    w: Array
    layers: tuple[Layer, Layer]
    spectra: tuple[Spectrum | None, Spectrum | None]
    direction: Array
    ranked: bool
    move: Move
    recipe: Recipe
    rows: int
    left_out_error: float
    told: dict[str, Any]

    @cached_property
    def facts(self) -> Facts:
        """Measured on the sample that the choices were made with: the whole table when it is small."""
        Z, Y, w = self.Z, self.Y, self.w
        n, d = len(Z), Z.shape[1] // (1 + self.ranked)
        share, plain = w / w.sum(), Z[:, :d]
        rooted = plain * np.sqrt(share)[:, None]
        covariance = rooted.T @ rooted if d <= n else rooted @ rooted.T  # the same trace and norm
        size = float(np.square(covariance).sum())
        _, linear = best_penalty(decompose(plain, Y, w), self.recipe.alphas)
        power = float(np.average(np.square(Y - share @ Y), axis=0, weights=w).mean()) or 1.0
        before, after = (known or self._spectrum(layer) for layer, known in zip(self.layers, self.spectra, strict=True))
        values, untrained_values = (tuple((s.eigenvalues[-LEADING:][::-1] / w.sum()).tolist()) for s in (after, before))
        return Facts(
            rows=self.rows, judged_rows=n, inputs=d, width=self.recipe.width, activation=self.recipe.activation,
            constant=not Y.any(), effective_dimension=float(np.trace(covariance) ** 2 / size) if size else 0.0,
            linear_share=1 - linear / power,
            hermite=tuple(_hermite_profile(Z @ self.direction, Y, share).tolist()),
            hermite_null=tuple((np.sqrt(min(d / n, 1)) / _ROOT_FACTORIALS).tolist()),
            left_out=self.left_out_error / power, untrained_left_out=before.left_out_error / power,
            eigenvalues=values, untrained_eigenvalues=untrained_values,
            spikes=int((after.eigenvalues > before.eigenvalues[-1] * (1 + 1e-9)).sum()),
            aligned=after.aligned, untrained_aligned=before.aligned, kurtosis=_kurtosis(plain, share),
            sample=Sample.of(self.layers[0], self.move, before.alpha, Z, Y), **self.told,
        )  # fmt: skip

    def _spectrum(self, layer: Layer) -> Spectrum:
        path = decompose(layer.design(self.Z), self.Y, self.w)
        return spectrum(path, *best_penalty(path, self.recipe.alphas))


def measurable(fit: FittedNetwork, rows: int, recipe: Recipe) -> Measurable:
    """Of a fit to so many rows."""
    stages = (fit.untrained, fit.seen)
    return Measurable(
        fit.sample.Z, fit.sample.Y, fit.sample.w,
        tuple(one.layer if isinstance(one, Stage) else one for one in stages),  # pyright: ignore[reportArgumentType]
        tuple(spectrum(one.path, one.alpha, one.left_out_error) if isinstance(one, Stage) else None for one in stages),  # pyright: ignore[reportArgumentType]
        fit.direction, fit.base.ranked, fit.move, recipe, rows, fit.trained.left_out_error,
        {"held_out": fit.held_out, "step_size": fit.step, "first_layer": fit.base.name},
    )  # fmt: skip


def _kurtosis(Z: Array, share: Array) -> float:
    second = share @ np.square(Z, dtype=float)
    with np.errstate(all="ignore"):
        return float(np.nanmax(share @ np.square(np.square(Z, dtype=float)) / second**2, initial=0.0))


def spectrum(path: Decomposition, alpha: float, left_out_error: float) -> Spectrum:
    """Of a regression at its penalty."""
    values, energy = path.eigenvalues[::-1], np.square(path.projected[::-1]).sum(1)
    if path.primal:
        energy = np.divide(energy, values, out=np.zeros_like(energy), where=values > 1e-12 * values[0])
    total = float(path.weights @ np.square(path.centred).sum(1)) or 1.0
    return Spectrum(alpha, left_out_error, path.eigenvalues, float(energy[:LEADING].sum() / total))


def _hermite_profile(z: Array, Y: Array, share: Array) -> Array:
    """c_k = E[y H_k(z)]/k! with z turned into normal scores, of the output with the largest profile."""
    scores = norm.ppf((rankdata(z) - 0.5) / z.size)
    normalised = (hermite_table(scores, DEGREES)[1:] * share) @ (Y - share @ Y)  # c_k √k!
    largest = normalised[:, int(np.argmax(np.square(normalised).sum(0)))]
    return largest / _ROOT_FACTORIALS


class Theory(NamedTuple):
    """The theory's words on this network and table, and its test errors; None where there are none."""

    message: str
    problem: Problem | None = None
    untrained: float | None = None
    trained: float | None = None
    with_more_rows: dict[int, float] = {}  # noqa: RUF012


def explain_fit(facts: Facts) -> Explanation:
    """Judge the step in words and put the theory beside it."""
    theory, (helps, verdict) = _theory(facts), _verdict(facts)
    return Explanation(
        helps, verdict, _reasons(facts, helps), facts, theory.problem, theory.trained, theory.untrained,
        theory.with_more_rows, theory.message,
    )  # fmt: skip


def _theory(f: Facts) -> Theory:
    """Predictions from half of the rows for as many as the held-out errors had, beside these."""
    sample = f.sample
    if f.constant or sample is None:
        return Theory("nothing to predict")
    if len(sample.Z) < FEWEST_ROWS:
        return Theory(
            f"no prediction: half of {len(sample.Z)} distinct rows are too few, {FEWEST_ROWS} rows are enough"
        )
    h = f.held_out
    step = f.step_size or (h.steps[int(np.argmin(h.errors[1:])) + 1] if h.steps else STEPS[1])
    found = outlook(sample, step)
    n = round(f.judged_rows * (FOLDS - 1) / FOLDS) if h.steps else f.judged_rows
    (before, after), spread = found.errors(n), found.stderr(n)
    measured = (h.errors[0], h.errors[h.steps.index(step)]) if h.steps else (f.untrained_left_out, None)
    chosen = int(bool(f.step_size))
    more = {k * f.rows: found.errors(k * f.rows)[chosen] for k in (2, 10)}
    steep = found.errors(len(sample.Z) / 2)[0] > 2 * before
    told = [f"from half of the rows for n = {n}, each error at its best penalty"]
    words = ("without a step", f"with one of size {step:g}")
    for name, error, share, seen in zip(words, (before, after), spread, measured, strict=True):
        told.append(_beside(f, name, error, share, seen, steep))
    told.append(", ".join(f"{error:.4g} at {rows} rows" for rows, error in more.items()) + " are expected")
    return Theory("; ".join(told), _problem(f, sample), before, after, more)


def _beside(f: Facts, name: str, predicted: float, share: float, measured: float | None, steep: bool) -> str:
    """Whether prediction and measurement agree, and if not why they may differ."""
    text = f"{name} {predicted:.4g} ± {share * predicted:.2g}"
    if measured is None:
        return text
    bar = np.hypot(share * predicted, share * measured * np.sqrt(min(MOST_ROWS / f.rows, 1.0)))
    if abs(predicted - measured) <= 2 * bar:
        return f"{text}, measured {measured:.4g}: within two standard errors"
    why = "the rows differ by more than their number says"
    if f.kurtosis > HEAVY:
        why = f"a column has heavy tails (kurtosis {f.kurtosis:.3g}), a few rows carry the fit and half of them do not stand for all"
    elif steep:
        why = "the error falls so fast with the rows that half of them do not show where it goes"
    elif "one of size" in name and predicted > measured:
        why = "half of the rows learn a worse step than all of them"
    elif f.rows < _FEW:
        why = f"{f.rows} rows are few"
    return f"{text}, measured {measured:.4g}: not within two standard errors, {why}"


def _problem(f: Facts, sample: Sample) -> Problem | None:
    """The table as a problem of its own: its plain network, without biases and skip connection, with the literal step."""
    try:
        step = Step(constant=1.0, exponent=0.5) if f.step_size else Step.none()
        return from_data(
            sample.Z[:, : f.inputs], sample.Y[:, 0], n=f.rows, N=f.width, activation=f.activation, step=step
        )
    except InputError:
        return None


def _verdict(f: Facts) -> tuple[bool | None, str]:
    h = f.held_out
    if f.constant:
        return None, "There is no target, or it is the same in every distinct row: nothing to learn, no step to judge."
    if not h.steps:
        if f.step_size:
            return None, f"A step of relative size {f.step_size:g} was taken as asked; whether it helps was not judged."
        return None, "No step was taken: none was asked for, or there are too few distinct rows to judge one."
    i = h.steps.index(f.step_size) if f.step_size else int(np.argmin(h.errors[1:])) + 1
    whole = h.errors[0] or 1.0  # 0 when random features are perfect
    gain, change = h.gain[i] / whole, f"{_told(abs(h.gain[i]) / whole)} (± {_told(h.stderr[i] / whole)})"
    if f.step_size:
        return True, f"One step helps: a step of relative size {f.step_size:g} lowers the held-out error by {change}."
    direction = "changes" if abs(gain) < _TOLD else "lowers" if gain > 0 else "raises"
    return False, f"One step does not help: the best one {direction} the held-out error by {change}, so none was taken."


def _told(share: float) -> str:
    return f"{share:.1%}" if share >= _TOLD else "less than 0.1%"


def _explains(share: float) -> str:
    """Nothing where left-out rows are predicted worse than by the mean."""
    told = f"{round(share, 3) + 0.0:.1%}"
    return f"explains nothing (its leave-one-out R² is {told})" if share < -0.0005 else f"explains {told}"


def _reasons(f: Facts, helps: bool | None) -> tuple[str, ...]:
    """What in the numbers speaks for or against a step."""
    if f.constant:
        return ()
    said: list[str] = []
    if f.first_layer == "ranks":
        said.append(
            "Held-out rows asked for the ranks of the columns beside the columns: some signal is a function of skewed columns."
        )
    elif f.first_layer == "sparse":
        said.append(
            "Held-out rows asked for neurons that see three columns at most: the signal is near a sum of functions of few columns."
        )
    elif f.first_layer == "landmarks":
        said.append(
            "Held-out rows asked for landmarks, a Gaussian kernel at training rows under the learned map, in place of neurons."
        )
    linear, features = f"linear regression {_explains(f.linear_share)}", f"{1 - f.untrained_left_out:.1%}"
    if f.linear_share < _LITTLE:
        follows = "; what helps is the step of the fitted network, which follows the nonlinear part." if helps else "."
        said.append(
            f"No linear signal: {linear}. The literal first step of an untrained network follows the linear part alone "
            f"and has nothing to follow here{follows}"
        )
    if f.untrained_left_out > 0.9:
        said.append(f"Little to learn: random features leave {f.untrained_left_out:.0%} of the variance unexplained.")
    elif helps is False and f.untrained_left_out > 1 - f.linear_share - _LITTLE:
        seen = f"The target is linear as far as these features see: {linear}, random features {features}"
        said.append(f"{seen}. The skip connection holds the linear part without a step.")
    if f.rows < 10 * f.effective_dimension:
        few = f"Few rows for the inputs: {f.rows} in effective dimension {f.effective_dimension:.0f}"
        said.append(f"{few}; the direction of a step is mostly noise.")
    if f.spikes:
        left = f"{f.spikes} eigenvalue{'s' if f.spikes > 1 else ''} of the features left the spectrum they had without a step"
        said.append(f"{left}: the features turned towards that many directions.")
    if helps is False and not said:
        known = f"Random features already explain {features} (leave-one-out), {linear}"
        said.append(f"{known}; re-weighting the inputs adds nothing that held-out rows can see.")
    return tuple(said)
