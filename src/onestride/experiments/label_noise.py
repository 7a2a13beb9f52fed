"""`label-noise`: Gaussian noise, heavy tails, replaced labels; gain against corruption, theory with matched variance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace

import numpy as np

from onestride._backend import Backend, choose, stream
from onestride._numerics import Array
from onestride.comparison import ERROR_TOLERANCE, GAIN_FLOOR, GAIN_TOLERANCE, Pair, agree, together
from onestride.experiments.kit import pm, points, problem_at, row_of
from onestride.experiments.outcome import Figure, Judgement, Progress
from onestride.experiments.probes import over_seeds, ridge_risk
from onestride.experiments.verdict import decide_each, marks, spoken, tally, worded
from onestride.plot import Panel, Series
from onestride.problem import Problem
from onestride.result import Estimate, Prediction
from onestride.simulation.network import Batch, draw_batch, draw_network, gradient
from onestride.theory.predict import predict

CLAIM = "Only the mean and the variance of the labels given the input enter the errors."
SIZES = {"n": (150, 500, 3000), "seeds": (4, 10, 12), "fine": (5, 21, 21)}
FREEDOM = 3  # of the Student noise: finite variance, infinite fourth moment
HEAVY = f"Student, {FREEDOM} degrees"
VARIANCES = (0.0, 0.5, 1.0, 2.0, 4.0)
FRACTIONS = (0.0, 0.1, 0.25, 0.5, 0.75)
Corruption = Callable[[Batch, np.random.Generator, float], Array]


def gaussian(batch: Batch, rng: np.random.Generator, variance: float) -> Array:
    """Gaussian noise."""
    return batch.signal + np.sqrt(variance) * rng.standard_normal(batch.signal.size)


def student(batch: Batch, rng: np.random.Generator, variance: float) -> Array:
    """Student noise of the same variance."""
    scale = np.sqrt(variance * (FREEDOM - 2) / FREEDOM)
    return batch.signal + scale * rng.standard_t(FREEDOM, batch.signal.size)


def replaced(batch: Batch, rng: np.random.Generator, fraction: float) -> Array:
    """A fraction of the labels replaced by labels of other samples."""
    swap = rng.random(batch.signal.size) < fraction
    return np.where(swap, rng.permutation(batch.signal), batch.signal)


LAWS: dict[str, tuple[Corruption, tuple[float, ...]]] = {
    "Gaussian": (gaussian, VARIANCES),
    HEAVY: (student, VARIANCES),
    "replaced": (replaced, FRACTIONS),
}


def matched(problem: Problem, law: str, level: float) -> Problem:
    """The Gaussian-noise problem with the same E[y|x] and the same mean of Var(y|x).

    Replacing a fraction p leaves E[y|x] = (1 − p)σ⋆ and the variance (1 − (1 − p)²) E σ⋆².
    """
    if law != "replaced":
        return problem.replace(noise=np.sqrt(level))
    kept = 1 - level
    noise = np.sqrt((1 - kept**2) * problem.target.second_moment)
    return problem.replace(noise=noise, teacher=tuple(kept * c for c in problem.teacher))


@dataclass(frozen=True)
class Data:
    """By law: the risk against E[y|x] without and with the step (levels × 2), and the theory of the matched problem."""

    problem: Problem
    risks: dict[str, Estimate]
    theory: dict[str, list[Prediction]]
    lines: dict[str, dict[float, Prediction]] = field(default_factory=dict)  # theory at levels of its own

    def risk(self, law: str) -> tuple[list[float], Estimate]:
        """Risk after the step at every level: predicted, measured."""
        return [p.test_error - p.problem.noise**2 for p in self.theory[law]], self.risks[law][:, 1]

    def gain(self, law: str) -> tuple[list[float], Estimate]:
        """Fall of the risk by the step at every level: predicted, measured."""
        return [p.test_gain for p in self.theory[law]], self.risks[law][:, 0] - self.risks[law][:, 1]


def measure(size: SimpleNamespace, progress: Progress) -> Data:
    """Corrupt the labels of the step and of the ridge regression alike; compare with the matched theory."""
    problem = problem_at(size.n, activation="softplus", noise=0.0, exponent=0.4)
    risks = over_seeds(partial(corrupted_risks, problem, backend=choose(size.device)), size.seeds, progress)
    fine = {law: np.linspace(0, levels[-1], size.fine).tolist() for law, (_, levels) in LAWS.items() if law != HEAVY}
    lines = {law: {x: predict(matched(problem, law, x), throw=False) for x in levels} for law, levels in fine.items()}
    theory = {law: [predict(matched(problem, law, x), throw=False) for x in at] for law, (_, at) in LAWS.items()}
    return Data(problem, dict(zip(LAWS, risks, strict=True)), theory, lines)


def corrupted_risks(problem: Problem, seed: int, *, backend: Backend) -> list[Array]:
    """Risk against E[y|x] without and with the step, shape (levels, 2), per law; one draw serves all levels."""
    network = draw_network(problem, seed)
    step = draw_batch(problem, seed, "step_inputs", None, problem.step_samples)
    train = draw_batch(problem, seed, "ridge_inputs", None, problem.n)
    test = draw_batch(problem, seed, "test_inputs", None, 2 * problem.n)
    out = []
    for law, (corrupt, levels) in LAWS.items():
        pairs = []
        for level in levels:
            first = replace(step, y=corrupt(step, stream(seed, "step_noise"), level))
            second = replace(train, y=corrupt(train, stream(seed, "ridge_noise"), level))
            goal = replace(test, signal=test.signal * (1 - level if law == "replaced" else 1.0))
            W = network.W0 + problem.eta * gradient(problem, network, first, backend=backend).G
            pairs.append([ridge_risk(problem, w, second, goal, backend=backend)[0] for w in (network.W0, W)])
        out.append(np.array(pairs))
    return out


def judge(data: Data) -> Judgement:
    """Does every law agree with Gaussian noise of the same variance?"""
    checks: dict[str, list[Pair]] = {law: [] for law in LAWS}
    rows = []
    among = 2 * sum(len(levels) for _, levels in LAWS.values())
    for law, (_, levels) in LAWS.items():
        risk, gain = data.risk(law), data.gain(law)
        for name, (predicted, measured), relative, floor in (
            ("risk", risk, ERROR_TOLERANCE, 0.0),
            ("gain", gain, GAIN_TOLERANCE, GAIN_FLOOR),
        ):
            for i, level in enumerate(levels):
                room = floor * (risk[0][i] + gain[0][i])  # of the risk without the step
                checks[law].append(agree(predicted[i], measured[i], relative, absolute=room, among=among))
                rows.append(row_of(checks[law][-1], law=law, quantity=name, level=level))
    gaussian, heavy, swapped = (data.gain(law)[1] for law in LAWS)
    told = "; ".join(f"{law}: {tally(found)}" for law, found in checks.items())
    return Judgement(
        words=decide_each(checks),
        finding=(
            f"At n = {data.problem.n} against the theory with matched mean and variance (within {ERROR_TOLERANCE:.0%} of a risk and "
            f"{GAIN_TOLERANCE:.0%} of a gain, {len(gaussian.values)} seeds): {told}. From clean labels to noise variance "
            f"{VARIANCES[-1]:g} (signal power {data.problem.target.second_moment:g}) the gain goes from {pm(gaussian[0])} to "
            f"{pm(gaussian[-1])} (Gaussian) and {pm(heavy[-1])} (Student); with {FRACTIONS[-1]:.0%} of the labels replaced to "
            f"{pm(swapped[-1])}.{marks(*(p for theory in data.theory.values() for p in theory))}"
        ),
        surprise=_surprise(data, checks["replaced"]),
        rows=rows,
    )


def _surprise(data: Data, replaced: list[Pair]) -> str:
    """Heavy tails beside Gaussian noise at the largest variance, and noise that depends on the input."""
    gaussian, heavy = (data.gain(law)[1][-1] for law in ("Gaussian", HEAVY))
    harm = worded(
        heavy - gaussian,
        GAIN_TOLERANCE * abs(float(gaussian.mean)),
        above="leaves more of the gain than",
        below="does more harm than",
        equal=f"leaves the same gain, within {GAIN_TOLERANCE:.0%}, as",
        unclear="is not told apart from",
    )
    swapped_too = spoken(
        together(replaced),
        agrees="mean and variance suffice",
        differs="mean and variance do not suffice",
        undecided="whether mean and variance suffice is undecided at these seeds",
    )
    spread, end = heavy.values.std(ddof=1) / gaussian.values.std(ddof=1), data.gain("replaced")[0][-1]
    return (
        f"At the largest variance noise without a fourth moment {harm} Gaussian noise; the spread of the gain over seeds changes by a factor {spread:.2g}. "
        f"Replaced labels are noise that depends on the input: {swapped_too}. With {FRACTIONS[-1]:.0%} replaced the predicted gain is "
        f"{end:.2g}{': the step no longer helps' if end <= 0 else ''}."
    )


def draw(data: Data) -> Figure:
    """Gain and risk against the variance of added noise and against the fraction of labels replaced."""
    panels = []
    for of, line, words in (
        (data.gain, lambda p: p.test_gain, "gain in risk by the step, paired"),
        (data.risk, lambda p: p.test_error - p.problem.noise**2, "risk after the step"),
    ):
        (_, gaussian), (_, heavy), (_, swapped) = (of(law) for law in LAWS)
        theory = {law: (list(found), [line(p) for p in found.values()]) for law, found in data.lines.items()}
        added = (
            Series("theory, this variance", *theory["Gaussian"]),
            points("Gaussian noise", VARIANCES, gaussian),
            points(HEAVY, [v + 0.06 for v in VARIANCES], heavy, colour=1),  # shifted: the bars do not cover each other
        )
        replaced = (
            Series("theory, matched mean and variance", *theory["replaced"], colour=2),
            points("labels replaced", FRACTIONS, swapped, colour=2),
        )
        panels.append(Panel("added noise", "variance of the noise", words, added))
        panels.append(Panel("replaced labels", "fraction replaced", words, replaced))
    (_, clean), (_, noisy), (_, swapped) = (data.gain(law) for law in ("Gaussian", "Gaussian", "replaced"))
    title = (
        f"One step gains {pm(clean[0])} without noise, {pm(noisy[len(VARIANCES) - 1])} at variance {VARIANCES[-1]:g} and "
        f"{pm(swapped[len(FRACTIONS) - 1])} with {FRACTIONS[-1]:.0%} of the labels replaced"
    )
    caption = (
        f"Softplus, teacher H₁ + H₂/√2 (power 2), n = {data.problem.n}, d = n/2, N = 3n/2, λ = 0.1, η = n^0.4, literal gradient; the "
        f"labels of the step and of the ridge regression are corrupted alike; risk: mean squared distance of the prediction from E[y|x]. "
        f"{len(data.risks['replaced'].values)} seeds, mean ± standard error."
    )
    return Figure(panels, caption, title=title)
