"""`multi-index`: teachers of two and three directions, one step and several: which directions are found."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import numpy as np

from onestride._backend import Backend, choose
from onestride._numerics import Array
from onestride.comparison import ERROR_TOLERANCE, Agreement, Check, Pair, check, together
from onestride.experiments.followed import TheoryPath, theory_path
from onestride.experiments.kit import QUADRATIC, pm, points, row_of, rows_along
from onestride.experiments.outcome import Figure, Judgement, Progress
from onestride.experiments.probes import best_risk, found, over_seeds, steps_problem
from onestride.experiments.verdict import beside_theory, decide_each, of_claims, tally, worded
from onestride.plot import Panel
from onestride.problem import Problem
from onestride.result import Estimate
from onestride.simulation.network import draw_batch, draw_directions, draw_network, weights_path

CLAIM = (
    "One step finds a single direction, that of the teacher's linear part; each further fresh step climbs one stair."
)
SIZES = {
    "d": (60, 200, 400),
    "steps": (4, 6, 8),
    "seeds": (3, 8, 8),
    "theory": (1, 4, 3),
}  # twice the time for each step more
TEACHERS = {
    "z₁ + z₁z₂": ("staircase", 2, (0.0, 1.0)),
    "z₁ + z₁z₂ + z₁z₂z₃": ("staircase", 3, (0.0, 1.0)),
    "Σ of 2 (H₁ + H₂/√2)": ("sum", 2, QUADRATIC),
    "Σ of 3 (H₁ + H₂/√2)": ("sum", 3, QUADRATIC),
}
WATCHED = {"staircase": ("β₁", "β₂", "β₃"), "sum": ("mean direction", "rest", "rest, second")}
RIDGES = (0.01, 0.1, 1.0, 10.0, 100.0)
LONGEST = "z₁ + z₁z₂ + z₁z₂z₃"
FOUND = 0.5  # a direction counts as found when this share of its squared length is


@dataclass(frozen=True)
class Path:
    """Share of every direction found after each step (steps × k), and the test error before and after (1 + steps).

    theory: that error as predicted, as far as theory goes.
    """

    teacher: str
    problem: Problem
    shares: Estimate
    risks: Estimate

    theory: TheoryPath

    def beside_theory(self, among: int) -> list[Pair]:
        """Test errors after each step beside those predicted, where theory does not mark its own."""
        return self.theory.errors_beside(self.risks[1:], among)

    @property
    def curves(self) -> dict[str, tuple[range, Estimate]]:
        """By name what is followed, with its steps: the share of each direction, and the test error."""
        k, steps = self.problem.directions, self.shares.values.shape[1]
        shares = {WATCHED[self.problem.mix][j]: (range(1, steps + 1), self.shares[:, j]) for j in range(k)}
        return shares | {"test error / power": (range(steps + 1), self.risks)}


def measure(size: SimpleNamespace, progress: Progress) -> list[Path]:
    """Follow every direction of each teacher through fresh steps of size √n."""
    paths = []
    for i, (name, (mix, k, teacher)) in enumerate(TEACHERS.items()):
        problem = steps_problem(size.d, size.steps, activation="elu", teacher=teacher, directions=k, mix=mix)
        run = partial(follow, problem, backend=choose(size.device))
        shares, risks = over_seeds(run, size.seeds, progress, part=(i, len(TEACHERS)))
        paths.append(Path(name, problem, shares, risks, theory_path(problem, RIDGES, size.theory)))
    return paths


def follow(problem: Problem, seed: int, *, backend: Backend) -> tuple[Array, Array]:
    """After each step: share of every direction found (steps × directions), and the test error (1 + steps)."""
    network = draw_network(problem, seed)
    watched = basis(problem, draw_directions(problem, seed))
    train = draw_batch(problem, seed, "ridge_inputs", "ridge_noise", problem.n)
    test = draw_batch(problem, seed, "test_inputs", None, 4000)
    shares, risks = [], [best_risk(problem, network.W0, train, test, RIDGES, backend=backend)]
    for W in weights_path(problem, network, seed, problem.eta, backend=backend):
        shares.append(found(W - network.W0, watched, problem.directions, backend=backend))
        risks.append(best_risk(problem, W, train, test, RIDGES, backend=backend))
    return np.array(shares), np.array(risks)


def basis(problem: Problem, directions: Array) -> Array:
    """What to watch: the stairs z₁, z₂, …; for a sum the mean direction of its linear part, then the rest."""
    if problem.mix == "staircase":
        return directions
    k = problem.directions
    rotation, _ = np.linalg.qr(np.column_stack([np.ones(k), np.eye(k)[:, 1:]]))
    return rotation.T @ directions


def judge(paths: list[Path]) -> Judgement:
    """One step should find one direction, later steps the other stairs; the measured shares decide."""
    among = sum(k + k * (mix == "staircase") for mix, k, _ in TEACHERS.values())
    one_only: list[Check] = []
    climbed: list[Check] = []
    judged = [pair for path in paths for pair in path.beside_theory(sum(len(p.theory.solved) for p in paths))]
    rows, sentences = [], []
    for path in paths:
        directions, first, last = range(path.problem.directions), path.shares[0], path.shares[-1]
        one_only.append(check(first[0], low=FOUND, among=among))
        one_only += [check(first[j], high=FOUND, among=among) for j in directions[1:]]
        if path.problem.mix == "staircase":
            climbed += [check(last[j], low=FOUND, among=among) for j in directions]
        moves = [f"{WATCHED[path.problem.mix][j]} {pm(first[j], 2)} → {pm(last[j], 2)}" for j in directions]
        sentences.append(
            f"{path.teacher}: {', '.join(moves)}; test error {pm(path.risks[1], 2)} → {pm(path.risks[-1], 2)} "
            f"{_theory_words(path)}."
        )
        for label, (steps, e) in path.curves.items():
            rows += rows_along("step", steps, e, teacher=path.teacher, quantity=label)
        pairs = zip(path.theory.solved, path.beside_theory(len(judged)), strict=True)
        rows += [row_of(pair, teacher=path.teacher, quantity="beside theory", step=t) for t, pair in pairs]
    longest = next(path for path in paths if path.teacher == LONGEST)
    second, third = (_reached(longest.shares.mean[:, j]) for j in (1, 2))
    rest = [_rest(path) for path in paths if path.problem.mix == "sum"]
    return Judgement(
        words=beside_theory(_words(one_only, climbed), judged),
        finding=(
            f"A direction counts as found from a share of {FOUND:g}. One step finds the first direction and no other: {tally(one_only)}; "
            f"after {len(longest.shares.mean)} steps every stair is climbed: {tally(climbed)}. Test errors within {ERROR_TOLERANCE:.0%} of theory, where it applies: {tally(judged)}. From the first step to the last: {' '.join(sentences)}"
        ),
        surprise=(
            f"At d = {longest.problem.d} the second stair is {second} and the third {third}. In a sum of equal functions, where by symmetry no stair leads from the mean direction to the "
            f"rest, {'; '.join(rest)}."
        ),
        rows=rows,
    )


def _theory_words(path: Path) -> str:
    """What theory says after the last step that it describes without a mark."""
    if not path.theory.solved:
        return "(theory marks its numbers)"
    end = path.theory.solved[-1]
    return f"(theory after {end}: {path.theory.test_error[end]:.2f}, measured {pm(path.risks[end], 2)})"


def _words(one_only: list[Check], climbed: list[Check]) -> str:
    """Two claims: one step finds a single direction, more steps climb every stair."""
    claims = {"one direction after one step": one_only, "every stair after several": climbed}
    outcomes = [together(found) for found in claims.values()]
    return decide_each(claims) if Agreement.UNDECIDED in outcomes else of_claims(outcomes)


def _reached(shares: Array) -> str:
    """After how many steps a direction is found, in words."""
    above = np.flatnonzero(shares > FOUND)
    if not above.size:
        return f"not reached in {shares.size} steps (share {shares[-1]:.2f})"
    return f"reached in {above[0] + 1} step{'s' * bool(above[0])}"


def _up_to(steps: int) -> str:
    return f"for up to {steps} steps" if steps > 1 else "for one step"


def _rest(path: Path) -> str:
    """Whether the directions beside the mean are more or less visible after the last step than after the first."""
    early, late = (Estimate(path.shares.values[:, t, 1:].mean(1)) for t in (0, -1))
    how = worded(
        late - early,
        0.0,
        above="becomes more visible",
        below="drops out of the leading directions",
        equal="stays",
        unclear="is not told to come or go",
    )
    return f"in {path.teacher} the rest {how}, from a share of {pm(early, 2)} to {pm(late, 2)}"


def draw(paths: list[Path]) -> Figure:
    """Share of every direction and test error against the number of steps, a panel per teacher."""
    panels = []
    for path in paths:
        first = 0 if path.problem.mix == "staircase" else 5
        colours = (*range(first, first + path.problem.directions), 4)
        curves = zip(path.curves.items(), colours, strict=True)
        series = [points(label, steps, e, colour=colour) for (label, (steps, e)), colour in curves]
        series += path.theory.series(path.theory.test_error, "theory", 4)
        chance = [(path.problem.directions / path.problem.d, "chance, k/d")]
        axes = f"y ∝ {path.teacher}", "first-layer steps", "share found; error"
        panels.append(Panel(*axes, series, horizontals=chance, ylim=(-0.03, 1.05), xticks=range(len(path.risks.mean))))
    d, seeds = paths[0].problem.d, len(paths[0].risks.values)
    caption = (
        f"Share: squared length of a direction inside the k leading right singular vectors of W_t − W₀. ELU, d = {d}, "
        f"n = 8d fresh samples per step, N = 2d, η = √n, y in place of the residual, a ~ N(0, 1/N) kept, no noise. Test error "
        f"over the teacher's power, the λ best on the test data of {', '.join(f'{v:g}' for v in RIDGES)}, ridge on n fresh samples; theory, {_up_to(len(paths[0].theory.status) - 1)}, at the best of "
        f"these λ. Sum: labels are "
        f"the average over directions times √k; mean direction Σβ_j/√k. {seeds} seeds, mean ± standard error."
    )
    ends = [f"y ∝ {path.teacher}: {', '.join(f'{share:.2f}' for share in path.shares.mean[-1])}" for path in paths]
    title = f"Shares of the directions found after {len(paths[0].shares.mean)} steps, {'; '.join(ends)}"
    return Figure(panels, caption, title=title)
