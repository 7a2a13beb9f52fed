"""`several-steps`: one to ten first-layer steps on fresh or reused samples, for information exponents 1, 2 and 3."""

from __future__ import annotations

import numpy as np

from onestride._numerics import Array
from onestride.compare import Agreement, Check, check, seeds_words, together
from onestride.experiments.claim import FAILS, HOLDS, PARTLY, UNDECIDED
from onestride.experiments.outcome import Outcome, Settings
from onestride.experiments.probes import found, ridge_risk, said, spike_count, squared_singular_values
from onestride.plot import Panel, Series
from onestride.problem import Problem, Step
from onestride.result import Estimate
from onestride.simulation.network import draw_batch, draw_network, draw_teacher, weights_path

# Information exponent: teacher, and an activation that can express it (tanh is odd, ReLU has c₃ = 0).
TEACHERS = {
    1: ("H₁", (0.0, 1.0), "tanh"),
    2: ("H₂/√2", (0.0, 0.0, 2**-0.5), "relu"),
    3: ("H₃/√6", (0.0, 0.0, 0.0, 6**-0.5), "tanh"),
}
BATCHES = ("fresh", "reused")
RIDGES = (0.1, 1.0, 10.0, 100.0)
QUANTITIES = ("overlap", "test error", "spikes of W", "spikes of F")
FOUND, LEARNED = 10.0, 0.9  # overlap above FOUND/d; test error below LEARNED of the teacher's power


def run(settings: Settings) -> Outcome:
    """Follow the weights through the steps at two dimensions; a finding must survive the larger one."""
    dims, steps = settings.pick((25, 50), (100, 200), (250, 1000)), settings.pick(4, 10, 10)
    seeds = settings.seed_count(3, 6, 8)
    data: dict[tuple[int, str, int], Array] = {}
    for d in dims:
        for i, (exponent, (_, teacher, activation)) in enumerate(TEACHERS.items()):
            for batch in BATCHES:
                problem = Problem(
                    n=8 * d, d=d, N=2 * d, activation=activation, teacher=teacher, steps=steps, batch=batch,
                    gradient="labels", step=Step(exponent=0.5),
                )  # fmt: skip
                data[exponent, batch, d] = np.array([follow(problem, seed) for seed in range(seeds)])
            settings.progress((i + 1) / 15 if d == dims[0] else (4 * i + 7) / 15)
    return judge(data, dims, steps, seeds)


def follow(problem: Problem, seed: int) -> Array:
    """`QUANTITIES` after each step, shape (4, steps); the test error is in units of the teacher's power."""
    network, beta_star = draw_network(problem, seed), draw_teacher(problem, seed)
    train = draw_batch(problem, seed, "ridge_inputs", "ridge_noise", problem.n)
    test = draw_batch(problem, seed, "test_inputs", None, 2000)
    power = (test.signal**2).mean()
    edges = [squared_singular_values(A)[-1] for A in (network.W0, problem.sigma(train.X @ network.W0.T))]
    out = []
    for W in weights_path(problem, network, seed, problem.eta):
        overlap = found(W - network.W0, beta_star[None], 1)[0]
        risk = ridge_risk(problem, W, train, test, RIDGES).min() / power
        F = problem.sigma(train.X @ W.T)
        out.append((overlap, risk, spike_count(W, edges[0]), spike_count(F, edges[1])))
    return np.array(out).T


def judge(data: dict[tuple[int, str, int], Array], dims: tuple[int, ...], steps: int, seeds: int) -> Outcome:
    """Direction found: overlap well above chance at the larger d, and not falling with d like chance does."""
    t, small, large = np.arange(1, steps + 1), dims[0], dims[-1]
    rows, panels = [], []
    for k in range(3):
        for exponent, (teacher, _, activation) in TEACHERS.items():
            series = []
            for c, batch in enumerate(BATCHES):
                e = Estimate(data[exponent, batch, large][:, k])
                label = f"{batch}, W" if k == 2 else batch
                series.append(Series(label, t + 0.15 * c, e.mean, e.stderr, "simulation", c))
                if k == 2:
                    f = Estimate(data[exponent, batch, large][:, 3])
                    series.append(Series(f"{batch}, F", t, f.mean, f.stderr, "simulation", c + 2))
            lines = {0: [(1 / large, "chance, 1/d")], 1: [(1.0, "nothing learned")], 2: []}[k]
            title = f"exponent {exponent}: {teacher}, {'ReLU' if activation == 'relu' else activation}"
            label = {0: "overlap with β⋆", 1: "test error / power", 2: "spikes"}[k]
            limits = {0: (-0.03, 1.05), 1: (-0.03, 1.15), 2: None}[k]
            panels.append(Panel(title, "first-layer steps", label, series, horizontals=lines, ylim=limits))
    for (exponent, batch, d), values in data.items():
        for k, name in enumerate(QUANTITIES):
            e = Estimate(values[:, k])
            row = {"exponent": exponent, "batch": batch, "d": d, "quantity": name}
            points = zip(t, e.mean, e.stderr, strict=True)
            rows += [row | {"step": int(s), "value": float(m), "stderr": float(x)} for s, m, x in points]

    def reached(exponent: int, batch: str) -> tuple[Agreement, list[Check]]:
        """Is the direction found, or the teacher learned? Either will do; both must clearly fail for a no."""
        near, far = (data[exponent, batch, d][:, 0, -1] for d in (small, large))
        risk = Estimate(data[exponent, batch, large][:, 1, -1])
        direction = [
            check(Estimate(far), low=FOUND / large, among=4),
            check(Estimate(far - near / 2), low=0, among=4),
        ]
        lower = check(risk, high=LEARNED, among=4)
        outcomes = together(direction), lower.outcome
        if Agreement.AGREES in outcomes:
            return Agreement.AGREES, []
        done = outcomes == (Agreement.DIFFERS, Agreement.DIFFERS)
        return (Agreement.DIFFERS, []) if done else (Agreement.UNDECIDED, [*direction, lower])

    states = {(k, batch): reached(k, batch) for k in (2, 3) for batch in BATCHES}
    hidden, beaten = ([k for k in (2, 3) if states[k, batch][0] is Agreement.AGREES] for batch in BATCHES)
    unclear = [f"{k}, {batch}" for (k, batch), (state, _) in states.items() if state is Agreement.UNDECIDED]
    words = [
        f"exponent {k}, {b}: overlap {said(data[k, b, large][:, 0, -1], 2)} "
        f"(d = {small}: {said(data[k, b, small][:, 0, -1], 2)}), test error {said(data[k, b, large][:, 1, -1], 2)}"
        for k in TEACHERS
        for b in BATCHES
    ]
    return Outcome(
        name="several-steps",
        question="What do more first-layer steps learn, and can a reused batch beat the information exponent?",
        claim="Fresh batches of n ~ d samples cannot find a teacher of information exponent above 1; a reused batch can.",
        verdict=verdict(states),
        finding=(
            f"After {steps} steps at d = {large}: {'; '.join(words)}. Found or learned by a reused batch: exponents "
            f"{beaten or 'none'} of [2, 3]; by fresh ones, against the claim: {hidden or 'none'}; undecided: {unclear or 'none'}."
        ),
        surprise=_finding_and_learning(data, dims, steps),
        rows=rows,
        panels=tuple(panels),
        caption=(
            f"Overlap: (vᵀβ⋆)², v the leading right singular vector of W_t − W₀. Spikes: singular values {0.1:.0%} above the "
            f"untrained network's largest. d = {large} (d = {small} in the table), n = 8d samples per step, N = 2d, η = √n, y in "
            f"place of the residual, a ~ N(0, 1/N) kept, no noise; ridge on n fresh samples, the λ best on the test data of "
            f"{', '.join(f'{v:g}' for v in RIDGES)}. Points of the reused batch are shifted sideways. {seeds} seeds, mean ± standard error."
        ),
        columns=3,
    )


def verdict(states: dict[tuple[int, str], tuple[Agreement, list[Check]]]) -> str:
    """Two claims: fresh batches reach no exponent above 1, a reused one reaches some. Each holds, fails or is undecided."""
    fresh, reused = ([state for (_, b), (state, _) in states.items() if b == batch] for batch in BATCHES)
    hidden = {True: Agreement.AGREES, False: Agreement.UNDECIDED}[all(s is Agreement.DIFFERS for s in fresh)]
    hidden = Agreement.DIFFERS if Agreement.AGREES in fresh else hidden
    beaten = Agreement.DIFFERS if all(s is Agreement.DIFFERS for s in reused) else Agreement.UNDECIDED
    beaten = Agreement.AGREES if Agreement.AGREES in reused else beaten
    claims = {"fresh batches find nothing": hidden, "a reused batch finds it": beaten}
    if Agreement.UNDECIDED in claims.values():
        known = [
            f"{name} {'holds' if s is Agreement.AGREES else 'does not hold'}"
            for name, s in claims.items()
            if s is not Agreement.UNDECIDED
        ]
        rest = [name for name, s in claims.items() if s is Agreement.UNDECIDED]
        seeds = seeds_words(c for _, found in states.values() for c in found)
        return f"{UNDECIDED} whether {' and '.join(rest)} ({seeds}){''.join(f'; {words}' for words in known)}"
    return {2: HOLDS, 1: PARTLY, 0: FAILS}[(hidden is Agreement.AGREES) + (beaten is Agreement.AGREES)]


def _finding_and_learning(data: dict[tuple[int, str, int], Array], dims: tuple[int, ...], steps: int) -> str:
    """Direction and error of exponents 2 and 3 after the last step: the two need not go together."""
    large, told = dims[-1], []
    for k in (2, 3):
        for batch in BATCHES:
            overlap, risk = (Estimate(data[k, batch, large][:, i, -1]) for i in (0, 1))
            turned = {Agreement.AGREES: "turned", Agreement.DIFFERS: "not turned"}.get(
                check(overlap, low=FOUND / large).outcome, "undecided"
            )
            learned = {Agreement.AGREES: "learned", Agreement.DIFFERS: "not learned"}.get(
                check(risk, high=LEARNED).outcome, "undecided"
            )
            told.append(f"exponent {k}, {batch}: {turned}, {learned}")
    return (
        f"Finding a direction (overlap above {FOUND:g}/d) and learning the teacher (test error below {LEARNED:g} of its power) are different things: after {steps} steps at d = {large}, "
        f"{'; '.join(told)}. Fresh batches have by then seen {steps} times the samples of the reused one."
    )
