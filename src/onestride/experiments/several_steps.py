"""`several-steps`: one to ten first-layer steps on fresh or reused samples, for information exponents 1, 2 and 3."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace

import numpy as np

from onestride._backend import Backend, DeviceArray, choose
from onestride._numerics import Array
from onestride.comparison import ERROR_TOLERANCE, Agreement, Check, Pair, check, seeds_words, together
from onestride.estimate import label_skewness
from onestride.experiments.followed import TheoryPath, theory_path
from onestride.experiments.kit import pm, points, row_of, rows_along
from onestride.experiments.outcome import Figure, Judgement, Progress
from onestride.experiments.probes import ABOVE, best_risk, found, spike_count, squared_singular_values, steps_problem
from onestride.experiments.verdict import FAILS, HOLDS, UNDECIDED, beside_theory, of_claims, spoken
from onestride.plot import Panel, Series
from onestride.problem import Problem
from onestride.result import Estimate
from onestride.simulation.network import draw_batch, draw_network, draw_teacher, weights_path

CLAIM = "Fresh batches of n ~ d samples cannot find a teacher of information exponent above 1; a reused batch can."
SIZES = {"dims": ((25, 50), (100, 200), (250, 500)), "steps": (4, 10, 10), "seeds": (3, 6, 8), "theory": (2, 10, 10)}
# Information exponent: teacher, and an activation that can express it (tanh is odd, ReLU has c₃ = 0).
TEACHERS = {
    1: ("H₁", (0.0, 1.0), "tanh"),
    2: ("H₂/√2", (0.0, 0.0, 2**-0.5), "relu"),
    3: ("H₃/√6", (0.0, 0.0, 0.0, 6**-0.5), "tanh"),
}
BATCHES = ("fresh", "reused")
HARD = [(k, batch) for k in (2, 3) for batch in BATCHES]  # above exponent 1: what the claim is about
FOLLOWED = [(1, "fresh"), (1, "reused"), (2, "fresh"), (3, "fresh")]  # by theory; one step is the same on either batch
RIDGES = (0.1, 1.0, 10.0, 100.0)
QUANTITIES = ("overlap", "test error", "spikes of W", "spikes of F")
FOUND, LEARNED = 10.0, 0.9  # overlap above FOUND/d; test error below LEARNED of the teacher's power


@dataclass(frozen=True)
class Data:
    """`QUANTITIES` after each step (4 × steps) by exponent, batch and d, at two dimensions; theory at the larger."""

    dims: tuple[int, int]
    paths: dict[tuple[int, str, int], Estimate]
    theory: dict[tuple[int, str], TheoryPath] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int]:
        """Seeds and steps."""
        values = next(iter(self.paths.values())).values
        return values.shape[0], values.shape[-1]

    @property
    def judged(self) -> dict[str, list[Pair]]:
        """Errors and overlaps beside theory by exponent and batch, where it does not mark its own numbers."""
        among = sum((1 + (k == 1)) * len(path.solved) for (k, _), path in self.theory.items())
        out: dict[str, list[Pair]] = {}
        for (k, batch), path in self.theory.items():
            measured = self.paths[k, batch, self.dims[-1]]
            tails = self.skewness(k)
            found = path.errors_beside(measured[QUANTITIES.index("test error")], among, tails)
            if k == 1:  # above, the overlap is 0 in theory and chance in every draw
                found += path.overlaps_beside(measured[QUANTITIES.index("overlap")], among, tails)
            out[f"exponent {k}, {batch}"] = found
        return out

    def skewness(self, exponent: int, d: int | None = None) -> float:
        """That of the power of one draw's labels, which the values here are not freed of, at the larger d unless another is given."""
        return label_skewness(steps_problem(d or self.dims[-1], 1, teacher=TEACHERS[exponent][1]), freed=False)

    def last(self, exponent: int, batch: str, quantity: str, d: int | None = None) -> Estimate:
        """A quantity after the last step, at the larger d unless another is given."""
        return self.paths[exponent, batch, d or self.dims[-1]][QUANTITIES.index(quantity), -1]


def measure(size: SimpleNamespace, progress: Progress) -> Data:
    """Follow the weights through the steps at two dimensions; a finding must survive the larger one."""
    paths: dict[tuple[int, str, int], Estimate] = {}
    for d in size.dims:
        for i, (exponent, (_, teacher, activation)) in enumerate(TEACHERS.items()):
            for batch in BATCHES:
                problem = steps_problem(d, size.steps, activation=activation, teacher=teacher, batch=batch)
                runs = [follow(problem, seed, backend=choose(size.device)) for seed in range(size.seeds)]
                paths[exponent, batch, d] = Estimate(np.array(runs))
            progress((i + 1) / 20 if d == size.dims[0] else (4 * i + 7) / 20)
    theory: dict[tuple[int, str], TheoryPath] = {}
    for exponent, batch in FOLLOWED:
        _, teacher, activation = TEACHERS[exponent]
        problem = steps_problem(size.dims[-1], 1, activation=activation, teacher=teacher, batch=batch)
        theory[exponent, batch] = theory_path(problem, RIDGES, size.theory)
        progress((15 + 5 * len(theory) / len(FOLLOWED)) / 20)
    return Data(size.dims, paths, theory)


def follow(problem: Problem, seed: int, *, backend: Backend) -> Array:
    """`QUANTITIES` after each step, shape (4, steps); the test error is in units of the teacher's power."""
    network, beta_star = draw_network(problem, seed), draw_teacher(problem, seed)
    train = draw_batch(problem, seed, "ridge_inputs", "ridge_noise", problem.n)
    test = draw_batch(problem, seed, "test_inputs", None, 2000)
    X = backend.put(train.X)
    look = partial(_matrices, problem, X, backend=backend)
    edges = [squared_singular_values(A, backend=backend)[-1] for A in look(network.W0)]
    out = []
    for W in weights_path(problem, network, seed, problem.eta, backend=backend):
        overlap = found(W - network.W0, beta_star[None], 1, backend=backend)[0]
        spikes = [spike_count(A, edge, backend=backend) for A, edge in zip(look(W), edges, strict=True)]
        out.append((overlap, best_risk(problem, W, train, test, RIDGES, backend=backend), *spikes))
    return np.array(out).T


def _matrices(problem: Problem, X: DeviceArray, W: Array, *, backend: Backend) -> tuple[DeviceArray, DeviceArray]:
    """W and the features, on the device: where spikes are counted."""
    there = backend.put(W)
    return there, problem.sigma(X @ there.T)


def judge(data: Data) -> Judgement:
    """Direction found: overlap well above chance at the larger d, and not falling with d like chance does."""
    (small, large), (_, steps) = data.dims, data.shape
    states = {(k, batch): _reached(data, k, batch) for k, batch in HARD}
    hidden, beaten = ([k for k in (2, 3) if states[k, batch][0] is Agreement.AGREES] for batch in BATCHES)
    unclear = [f"{k}, {batch}" for (k, batch), (state, _) in states.items() if state is Agreement.UNDECIDED]
    words = [
        f"exponent {k}, {b}: overlap {pm(data.last(k, b, 'overlap'), 2)} "
        f"(d = {small}: {pm(data.last(k, b, 'overlap', small), 2)}), test error {pm(data.last(k, b, 'test error'), 2)}"
        for k in TEACHERS
        for b in BATCHES
    ]
    rows = []
    for (exponent, batch, d), path in data.paths.items():
        where = {"exponent": exponent, "batch": batch, "d": d}
        for k, name in enumerate(QUANTITIES):
            rows += rows_along("step", range(1, steps + 1), path[k], **where, quantity=name)
    judged = data.judged
    for (exponent, batch), path in data.theory.items():
        pairs = judged[f"exponent {exponent}, {batch}"]
        where = {"exponent": exponent, "batch": batch, "d": large}
        rows += [row_of(p, **where, quantity=p.quantity, step=t) for p, t in zip(pairs, path.solved * 2, strict=False)]
    return Judgement(
        words=beside_theory(_words(states), [pair for pairs in judged.values() for pair in pairs]),
        finding=(
            f"After {steps} steps at d = {large}: {'; '.join(words)}. Found or learned by a reused batch: exponents "
            f"{_listed(beaten)} of 2 and 3; by fresh ones, against the claim: {_listed(hidden)}; undecided: {_listed(unclear, '; ')}."
            f"{_theory_words(data)}"
        ),
        surprise=_finding_and_learning(data),
        rows=rows,
    )


def _theory_words(data: Data) -> str:
    """How far theory goes and what it says at the end of that, for every exponent and batch."""
    told: list[str] = []
    for (k, batch), path in data.theory.items():
        if path.solved:
            end = path.solved[-1]
            measured = data.paths[k, batch, data.dims[-1]][QUANTITIES.index("test error"), end - 1]
            said = f"{path.test_error[end]:.2g}, measured {pm(measured, 2)}"
            told.append(f"exponent {k}, {batch}, after {end} step{'s' * (end > 1)}: {said}")
    rule = f"within {ERROR_TOLERANCE:.0%} of test errors and of the overlaps of exponent 1"
    return (
        f" Beside theory, {rule}, the last numbers that it does not mark are {'; '.join(told)} (test error)."
        if told
        else ""
    )


def _reached(data: Data, exponent: int, batch: str) -> tuple[Agreement, list[Check]]:
    """Is the direction found, or the teacher learned? With the checks when that is undecided."""
    near, far = (data.last(exponent, batch, "overlap", d) for d in data.dims)
    among, (small, large) = len(HARD), (data.skewness(exponent, d) for d in data.dims)
    direction = [
        check(far, low=FOUND / data.dims[-1], among=among, skewness=large),
        check(Estimate(far.values - near.values / 2), low=0, among=among, skewness=small),
    ]
    lower = check(data.last(exponent, batch, "test error"), high=LEARNED, among=among, skewness=large)
    state = _either((together(direction), lower.outcome))
    return state, [*direction, lower] if state is Agreement.UNDECIDED else []


def _either(outcomes: Collection[Agreement]) -> Agreement:
    """One that agrees will do; all must clearly fail for a no."""
    if Agreement.AGREES in outcomes:
        return Agreement.AGREES
    return Agreement.UNDECIDED if Agreement.UNDECIDED in outcomes else Agreement.DIFFERS


def _words(states: dict[tuple[int, str], tuple[Agreement, list[Check]]]) -> str:
    """Two claims: fresh batches reach no exponent above 1, a reused one reaches some. Each holds, fails or is undecided."""
    fresh, reused = (_either([state for (_, b), (state, _) in states.items() if b == batch]) for batch in BATCHES)
    opposite = {Agreement.AGREES: Agreement.DIFFERS, Agreement.DIFFERS: Agreement.AGREES}
    claims = {"fresh batches find nothing": opposite.get(fresh, fresh), "a reused batch finds it": reused}
    rest = [name for name, state in claims.items() if state is Agreement.UNDECIDED]
    if not rest:
        return of_claims(list(claims.values()))
    seeds = seeds_words(c for _, checks in states.values() for c in checks)
    unclear = f"{UNDECIDED} whether {' and '.join(rest)} ({seeds})"
    known = {state: name for name, state in claims.items()}
    if Agreement.DIFFERS in known:
        return f"{FAILS}: not that {known[Agreement.DIFFERS]}; {unclear}"
    return f"{unclear}; {known[Agreement.AGREES]} {HOLDS}" if Agreement.AGREES in known else unclear


def _listed(names: Sequence[object], between: str = " and ") -> str:
    return between.join(map(str, names)) or "none"


def _finding_and_learning(data: Data) -> str:
    """Direction and error of exponents 2 and 3 after the last step: the two need not go together."""
    large, steps = data.dims[-1], data.shape[1]
    told = []
    for k, batch in HARD:
        overlap = check(data.last(k, batch, "overlap"), low=FOUND / large, skewness=data.skewness(k))
        risk = check(data.last(k, batch, "test error"), high=LEARNED, skewness=data.skewness(k))
        turned = spoken(overlap.outcome, "turned", "not turned", "undecided")
        told.append(f"exponent {k}, {batch}: {turned}, {spoken(risk.outcome, 'learned', 'not learned', 'undecided')}")
    return (
        f"Finding a direction (overlap above {FOUND:g}/d) and learning the teacher (test error below {LEARNED:g} of its power) are different things: after {steps} steps at d = {large}, "
        f"{'; '.join(told)}. Fresh batches have by then seen {steps} times the samples of the reused one."
    )


def draw(data: Data) -> Figure:
    """Overlap, test error and spikes against the number of steps at the larger d."""
    (small, large), (seeds, _) = data.dims, data.shape
    panels = []
    axes = (
        ("overlap with β⋆", [(1 / large, "chance, 1/d")], (-0.03, 1.05)),
        ("test error / power", [(1.0, "nothing learned")], (-0.03, 1.15)),
        ("spikes of W (and of F)", [], (0.8, 2.0)),
    )
    for k, (label, lines, limits) in enumerate(axes):
        for exponent, (teacher, _, activation) in TEACHERS.items():
            title = f"exponent {exponent}: {teacher}, {'ReLU' if activation == 'relu' else activation}"
            series = _series(data, exponent, k)
            options = {"horizontals": lines, "ylim": limits, "logy": k == 2, "xticks": range(1, data.shape[1] + 1)}
            panels.append(Panel(title, "first-layer steps", label, series, **options))
    caption = (
        f"Overlap: (vᵀβ⋆)², v the leading right singular vector of W_t − W₀. Spikes: singular values {ABOVE - 1:.0%} above the "
        f"untrained network's largest. d = {large} (d = {small} in the table), n = 8d samples per step, N = 2d, η = √n, y in "
        f"place of the residual, a ~ N(0, 1/N) kept, no noise; ridge on n fresh samples, the λ best on the test data of "
        f"{', '.join(f'{v:g}' for v in RIDGES)}. Theory at the best of the same λ, where it applies; a teacher without a linear part is followed for one step. Points of the reused batch are shifted sideways. {seeds} seeds, mean ± standard error."
    )
    ends = [f"{data.last(k, b, 'overlap').mean:.2f} (exponent {k}, {b})" for k in TEACHERS for b in BATCHES]
    title = f"Overlap with β⋆ after {data.shape[1]} steps at d = {large}: {', '.join(ends)}"
    return Figure(panels, caption, columns=3, title=title)


def _series(data: Data, exponent: int, k: int) -> list[Series]:
    """Quantity k for both batches; spikes of W and of F in one panel."""
    series, steps = [], range(1, data.shape[1] + 1)
    for c, batch in enumerate(BATCHES):
        theory = data.theory.get((exponent, batch))
        if theory is not None and k < 2 and len(theory.solved) > 1:  # one point makes no line
            values = (theory.overlap, theory.test_error)[k]
            series += theory.series(values, f"theory, {batch}", c, first=1)
        path, spikes = data.paths[exponent, batch, data.dims[-1]], k == 2
        series.append(points(batch, [t + 0.15 * c for t in steps], path[k], colour=c))
        if spikes:
            series.append(points(f"{batch}, spikes of F", [t + 0.3 + 0.15 * c for t in steps], path[3], colour=c + 2))
    return series
