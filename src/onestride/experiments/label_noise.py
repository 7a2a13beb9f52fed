"""`label-noise`: Gaussian noise, heavy tails, replaced labels; gain against corruption, theory with matched variance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from onestride._backend import stream
from onestride._numerics import Array
from onestride.compare import ERROR_TOLERANCE, GAIN_FLOOR, GAIN_TOLERANCE, Agreement, Pair, agree, together
from onestride.experiments.claim import decide_each, marks, tally, worded
from onestride.experiments.outcome import Outcome, Settings
from onestride.experiments.probes import ridge_risk, said
from onestride.plot import Panel, Series
from onestride.problem import Problem, Step
from onestride.result import Estimate
from onestride.simulation.network import Batch, draw_batch, draw_network, gradient
from onestride.theory.predict import predict

FREEDOM = 3  # of the Student noise: finite variance, infinite fourth moment
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
    f"Student, {FREEDOM} degrees": (student, VARIANCES),
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


def run(settings: Settings) -> Outcome:
    """Corrupt the labels of the step and of the ridge regression alike; compare with the matched theory."""
    n, seeds = settings.pick(150, 500, 3000), settings.seed_count(4, 10, 12)
    problem = Problem(
        n=n, d=n // 2, N=3 * n // 2, activation="softplus", teacher=(0.0, 1.0, 2**-0.5), ridge=0.1,
        step=Step(exponent=0.4),
    )  # fmt: skip
    runs = []
    for seed in range(seeds):
        runs.append(measure(problem, seed))
        settings.progress((seed + 1) / seeds)
    data = {law: np.array([r[law] for r in runs]) for law in LAWS}
    return judge(problem, data, seeds)


def measure(problem: Problem, seed: int) -> dict[str, Array]:
    """Risk against E[y|x] without and with the step, shape (levels, 2), per law; one draw serves all levels."""
    network = draw_network(problem, seed)
    step = draw_batch(problem, seed, "step_inputs", None, problem.step_samples)
    train = draw_batch(problem, seed, "ridge_inputs", None, problem.n)
    test = draw_batch(problem, seed, "test_inputs", None, 2 * problem.n)
    out = {}
    for law, (corrupt, levels) in LAWS.items():
        pairs = []
        for level in levels:
            first = replace(step, y=corrupt(step, stream(seed, "step_noise"), level))
            second = replace(train, y=corrupt(train, stream(seed, "ridge_noise"), level))
            goal = replace(test, signal=test.signal * (1 - level if law == "replaced" else 1.0))
            W = network.W0 + problem.eta * gradient(problem, network, first).G
            pairs.append([ridge_risk(problem, w, second, goal)[0] for w in (network.W0, W)])
        out[law] = np.array(pairs)
    return out


def judge(problem: Problem, data: dict[str, Array], seeds: int) -> Outcome:
    """Does every law agree with Gaussian noise of the same variance?"""
    rows, panels, kept = [], [], {}
    checks: dict[str, list[Pair]] = {law: [] for law in LAWS}
    theories = []
    among = 2 * sum(len(levels) for _, levels in LAWS.values())
    for law, (_, levels) in LAWS.items():
        theory = [predict(matched(problem, law, level), throw=False) for level in levels]
        theories += theory
        excess = [p.test_error - p.problem.noise**2 for p in theory]
        for name, values, curve, relative, floor in (
            ("risk", data[law][:, :, 1], excess, ERROR_TOLERANCE, 0.0),
            (
                "gain",
                data[law][:, :, 0] - data[law][:, :, 1],
                [p.test_gain for p in theory],
                GAIN_TOLERANCE,
                GAIN_FLOOR,
            ),
        ):
            e = Estimate(values)
            for i, level in enumerate(levels):
                room = floor * (excess[i] + theory[i].test_gain)  # of the risk without the step
                row = agree(float(curve[i]), e[i], relative, absolute=room, among=among)
                checks[law].append(row)
                rows.append(
                    {"law": law, "quantity": name, "level": level, "theory": row.predicted, "measured": row.measured}
                    | {"stderr": row.stderr, "outcome": row.outcome.name.lower()}
                )
            kept[law, name] = (levels, curve, e)
    for name, words in (("gain", "gain in risk by the step"), ("risk", "risk after the step")):
        levels, curve, e = kept["Gaussian", name]
        heavy = kept[f"Student, {FREEDOM} degrees", name][2]
        shift = 0.06  # so that the error bars do not cover each other
        added = (
            Series("theory, this variance", levels, curve),
            Series("Gaussian noise", levels, e.mean, e.stderr, "simulation"),
            Series(f"Student, {FREEDOM} degrees", np.add(levels, shift), heavy.mean, heavy.stderr, "simulation", 1),
        )
        panels.append(Panel("added noise", "variance of the noise", words, added))
        levels, curve, e = kept["replaced", name]
        swapped = (
            Series("theory, matched mean and variance", levels, curve),
            Series("labels replaced", levels, e.mean, e.stderr, "simulation", 2),
        )
        panels.append(Panel("replaced labels", "fraction replaced", words, swapped))
    ends = [f"{law}: {tally(checks[law])}" for law in LAWS]
    gains = {law: data[law][:, :, 0] - data[law][:, :, 1] for law in LAWS}
    heavy_law = f"Student, {FREEDOM} degrees"
    spread = gains[heavy_law][:, -1].std(ddof=1) / gains["Gaussian"][:, -1].std(ddof=1)
    harm = worded(
        Estimate(gains[heavy_law][:, -1] - gains["Gaussian"][:, -1]),
        GAIN_TOLERANCE * abs(float(gains["Gaussian"][:, -1].mean())),
        above="leaves more of the gain than",
        below="does more harm than",
        equal=f"leaves the same gain, within {GAIN_TOLERANCE:.0%}, as",
        unclear="is not told apart from",
    )
    swapped_too = {
        Agreement.AGREES: "mean and variance suffice",
        Agreement.DIFFERS: "mean and variance do not suffice",
        Agreement.UNDECIDED: "whether mean and variance suffice is undecided at these seeds",
    }[together(checks["replaced"])]
    end = float(kept["replaced", "gain"][1][-1])
    return Outcome(
        name="label-noise",
        question="How does the gain fall with label noise, and does anything but the variance of the noise matter?",
        claim="Only the mean and the variance of the labels given the input enter the errors.",
        verdict=decide_each(checks),
        finding=(
            f"At n = {problem.n} against the theory with matched mean and variance (within {ERROR_TOLERANCE:.0%} of a risk and "
            f"{GAIN_TOLERANCE:.0%} of a gain, {seeds} seeds): {'; '.join(ends)}. From clean labels to noise variance "
            f"{VARIANCES[-1]:g} (signal power {problem.target.second_moment:g}) the gain goes from {said(gains['Gaussian'][:, 0])} to "
            f"{said(gains['Gaussian'][:, -1])} (Gaussian) and {said(gains[heavy_law][:, -1])} (Student); with "
            f"{FRACTIONS[-1]:.0%} of the labels replaced to {said(gains['replaced'][:, -1])}.{marks(*theories)}"
        ),
        surprise=(
            f"At the largest variance noise without a fourth moment {harm} Gaussian noise; the spread of the gain over seeds changes by a factor {spread:.2g}. "
            f"Replaced labels are noise that depends on the input: {swapped_too}. With {FRACTIONS[-1]:.0%} replaced the predicted gain is "
            f"{end:.2g}{': the step no longer helps' if end <= 0 else ''}."
        ),
        rows=rows,
        panels=tuple(panels),
        caption=(
            f"Softplus, teacher H₁ + H₂/√2 (power 2), n = {problem.n}, d = n/2, N = 3n/2, λ = 0.1, η = n^0.4, literal gradient; the "
            f"labels of the step and of the ridge regression are corrupted alike; risk: mean squared distance of the prediction from E[y|x]. "
            f"{seeds} seeds, mean ± standard error."
        ),
    )
