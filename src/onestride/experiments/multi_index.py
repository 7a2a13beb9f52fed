"""`multi-index`: teachers of two and three directions, one step and several: which directions are found."""

from __future__ import annotations

import numpy as np

from onestride._numerics import Array
from onestride.compare import Agreement, Check, check, seeds_words, together
from onestride.experiments.claim import FAILS, HOLDS, PARTLY, UNDECIDED, tally, worded
from onestride.experiments.outcome import Outcome, Settings
from onestride.experiments.probes import found, ridge_risk, said
from onestride.plot import Panel, Series
from onestride.problem import Problem, Step
from onestride.result import Estimate
from onestride.simulation.network import draw_batch, draw_directions, draw_network, weights_path

TEACHERS = {
    "z₁ + z₁z₂": ("staircase", 2, (0.0, 1.0)),
    "z₁ + z₁z₂ + z₁z₂z₃": ("staircase", 3, (0.0, 1.0)),
    "Σ of 2 (H₁ + H₂/√2)": ("sum", 2, (0.0, 1.0, 2**-0.5)),
    "Σ of 3 (H₁ + H₂/√2)": ("sum", 3, (0.0, 1.0, 2**-0.5)),
}
RIDGES = (0.01, 0.1, 1.0, 10.0, 100.0)
LONGEST = "z₁ + z₁z₂ + z₁z₂z₃"
FOUND = 0.5  # a direction counts as found when this share of its squared length is


def run(settings: Settings) -> Outcome:
    """Follow every direction of each teacher through fresh steps of size √n."""
    d, steps = settings.pick(60, 200, 600), settings.pick(4, 6, 8)
    seeds = settings.seed_count(3, 8, 8)
    measured: dict[str, tuple[Array, Array]] = {}
    for i, (name, (mix, k, teacher)) in enumerate(TEACHERS.items()):
        problem = Problem(
            n=8 * d, d=d, N=2 * d, activation="elu", teacher=teacher, directions=k, mix=mix, steps=steps,
            gradient="labels", step=Step(exponent=0.5),
        )  # fmt: skip
        runs = [follow(problem, seed) for seed in range(seeds)]
        measured[name] = np.array([r[0] for r in runs]), np.array([r[1] for r in runs])
        settings.progress((i + 1) / len(TEACHERS))
    return judge(measured, d, steps, seeds)


def follow(problem: Problem, seed: int) -> tuple[Array, Array]:
    """After each step: share of every direction found (steps × directions), and the test error (1 + steps)."""
    network, k = draw_network(problem, seed), problem.directions
    watched = basis(problem, draw_directions(problem, seed))
    train = draw_batch(problem, seed, "ridge_inputs", "ridge_noise", problem.n)
    test = draw_batch(problem, seed, "test_inputs", None, 4000)
    power = (test.signal**2).mean()
    shares, risks = [], [ridge_risk(problem, network.W0, train, test, RIDGES).min() / power]
    for W in weights_path(problem, network, seed, problem.eta):
        shares.append(found(W - network.W0, watched, k))
        risks.append(ridge_risk(problem, W, train, test, RIDGES).min() / power)
    return np.array(shares), np.array(risks)


def basis(problem: Problem, directions: Array) -> Array:
    """What to watch: the stairs z₁, z₂, …; for a sum the mean direction of its linear part, then the rest."""
    if problem.mix == "staircase":
        return directions
    k = problem.directions
    rotation, _ = np.linalg.qr(np.column_stack([np.ones(k), np.eye(k)[:, 1:]]))
    return rotation.T @ directions


def reached(shares: Array) -> str:
    """After how many steps a direction is found, in words."""
    above = np.flatnonzero(shares > FOUND)
    if not above.size:
        return f"not reached in {shares.size} steps (share {shares[-1]:.2f})"
    return f"reached in {above[0] + 1} step{'s' * bool(above[0])}"


def judge(measured: dict[str, tuple[Array, Array]], d: int, steps: int, seeds: int) -> Outcome:
    """One step should find one direction, later steps the other stairs; the measured shares decide."""
    rows, panels, sentences = [], [], []
    one_only: list[Check] = []
    climbed: list[Check] = []
    among = sum(k + k * (mix == "staircase") for mix, k, _ in TEACHERS.values())
    for name, (shares, risks) in measured.items():
        mix, k, _ = TEACHERS[name]
        labels = ["β₁", "β₂", "β₃"] if mix == "staircase" else ["mean direction", "rest", "rest, second"]
        first, last = Estimate(shares[:, 0]), Estimate(shares[:, -1])
        one_only += [check(first[0], low=FOUND, among=among)] + [
            check(first[j], high=FOUND, among=among) for j in range(1, k)
        ]
        if mix == "staircase":
            climbed += [check(last[j], low=FOUND, among=among) for j in range(k)]
        moves = [f"{labels[j]} {said(shares[:, 0, j], 2)} → {said(shares[:, -1, j], 2)}" for j in range(k)]
        sentences.append(f"{name}: {', '.join(moves)}; test error {said(risks[:, 1], 2)} → {said(risks[:, -1], 2)}. ")
        curves = {labels[j]: (np.arange(1, steps + 1), Estimate(shares[:, :, j]), j) for j in range(k)}
        curves["test error / power"] = (np.arange(steps + 1), Estimate(risks), 4)
        series = [Series(label, t, e.mean, e.stderr, "simulation", c) for label, (t, e, c) in curves.items()]
        for label, (t, e, _) in curves.items():
            points = zip(t, e.mean, e.stderr, strict=True)
            row = {"teacher": name, "quantity": label}
            rows += [row | {"step": int(a), "value": float(b), "stderr": float(c)} for a, b, c in points]
        chance = [(k / d, "chance, k/d")]
        panels.append(
            Panel(
                f"y ∝ {name}", "first-layer steps", "share found; error", series, horizontals=chance, ylim=(-0.03, 1.05)
            )
        )
    second, third = (reached(measured[LONGEST][0][:, :, j].mean(0)) for j in (1, 2))
    return Outcome(
        name="multi-index",
        question="Of a teacher with two or three directions, which does one step find, and which do more steps?",
        claim="One step finds a single direction, that of the teacher's linear part; each further fresh step climbs one stair.",
        verdict=verdict(one_only, climbed),
        finding=(
            f"A direction counts as found from a share of {FOUND:g}. One step finds the first direction and no other: {tally(one_only)}; "
            f"after {steps} steps every stair is climbed: {tally(climbed)}. From the first step to the last: "
            + "".join(sentences)
        ).strip(),
        surprise=(
            f"At d = {d} the second stair is {second} and the third {third}. In a sum of equal functions, where by symmetry no stair leads from the mean direction to the "
            f"rest, {'; '.join(_rest(name, measured[name][0]) for name in measured if TEACHERS[name][0] == 'sum')}."
        ),
        rows=rows,
        panels=tuple(panels),
        caption=(
            f"Share: squared length of a direction inside the k leading right singular vectors of W_t − W₀. ELU, d = {d}, "
            f"n = 8d fresh samples per step, N = 2d, η = √n, y in place of the residual, a ~ N(0, 1/N) kept, no noise. Test error "
            f"over the teacher's power, the λ best on the test data of {', '.join(f'{v:g}' for v in RIDGES)}, ridge on n fresh samples. Sum: labels are "
            f"the average over directions times √k; mean direction Σβ_j/√k. {seeds} seeds, mean ± standard error."
        ),
    )


def verdict(one_only: list[Check], climbed: list[Check]) -> str:
    """Two claims: one step finds a single direction, more steps climb every stair."""
    outcomes = [together(one_only), together(climbed)]
    if Agreement.UNDECIDED in outcomes:
        return f"{UNDECIDED}: {seeds_words([*one_only, *climbed])}"
    return {2: HOLDS, 1: PARTLY, 0: FAILS}[outcomes.count(Agreement.AGREES)]


def _rest(name: str, shares: Array) -> str:
    """Whether the directions beside the mean are more or less visible after the last step than after the first."""
    early, late = shares[:, 0, 1:].mean(1), shares[:, -1, 1:].mean(1)
    how = worded(
        Estimate(late - early),
        0.0,
        above="becomes more visible",
        below="drops out of the leading directions",
        equal="stays",
        unclear="is not told to come or go",
    )
    return f"in {name} the rest {how}, from a share of {said(early, 2)} to {said(late, 2)}"
