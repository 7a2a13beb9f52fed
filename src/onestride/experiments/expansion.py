"""`expansion`: does ‖F − F_ℓ‖/√n vanish, after the exact gradient step and after an exactly rank-one one?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace

from onestride.comparison import Agreement, Check, together
from onestride.experiments.kit import (
    WINDOWS,
    constant_part,
    mean_of,
    ns_of,
    paper_problem,
    pm,
    points,
    seeds_along,
    seeds_of,
)
from onestride.experiments.outcome import Figure, Judgement, Progress
from onestride.experiments.verdict import NOT_YET, PARTLY, decide, growth, slope_check, spoken
from onestride.plot import Panel, Series
from onestride.result import Estimate
from onestride.simulation.equivalent import MeasuredDistance, measure_distance

CLAIM = "F is close to F_ℓ in window ℓ: ‖F − F_ℓ‖/√n falls to 0 with n."
SIZES = {"ns": ((100, 200, 400), (400, 800, 1600), (1000, 2000, 4000, 8000)), "seeds": (4, 6, 8)}
STEPS = {"exact": "distance", "rank one": "distance_rank_one"}


@dataclass(frozen=True)
class Window:
    """One exponent: F beside F_ℓ along n."""

    alpha: float
    runs: list[MeasuredDistance]

    def distances(self, step: str) -> list[Estimate]:
        """‖F − F_ℓ‖/√n along n."""
        return [getattr(run, STEPS[step]) for run in self.runs]

    def named(self, step: str) -> str:
        """Exponent, window and step in words."""
        return f"α = {self.alpha:g}, ℓ = {self.runs[0].ell}, {step} step"


def measure(size: SimpleNamespace, progress: Progress) -> list[Window]:
    """Form F, F_ℓ and the features after a rank-one step, for one exponent in each of windows 1 and 2."""
    windows = []
    for alpha, ell in WINDOWS.items():
        runs = [
            measure_distance(paper_problem(n, exponent=alpha), ell, seeds, device=size.device)
            for n, seeds in seeds_along(size.ns, size.seeds)
        ]
        windows.append(Window(alpha, runs))
        progress(len(windows) / len(WINDOWS))
    return windows


def judge(windows: list[Window]) -> Judgement:
    """The exponents of the distances in n, and the part of F − F_ℓ that theory says must remain."""
    rows, words = [], []
    falls: dict[str, list[Check]] = {step: [] for step in STEPS}
    for window in windows:
        for step in STEPS:
            found = window.distances(step)
            slope = growth(ns_of(window.runs), found)
            seeds = found[-1].values.shape[0]
            falls[step].append(slope_check(slope, seeds, 0.0, among=len(STEPS) * len(windows)))
            words.append(f"{window.named(step)} {pm(found[-1])}, n^({slope[0]:.2f} ± {slope[1]:.2f})")
            rows += [
                {"alpha": window.alpha, "ell": run.ell, "step": step, "n": run.problem.n}
                | mean_of(e, "distance")
                | {"exponent": slope[0]}
                for run, e in zip(window.runs, found, strict=True)
            ]
    exact, rank_one = (
        spoken(together(falls[step]), "falls as the theorem says", "does not fall", "is not shown to fall or not")
        for step in STEPS
    )
    last = windows[-1]
    means, problem = [run.column_means for run in last.runs], last.runs[-1].problem
    return Judgement(
        words=_words(falls),
        finding=(
            f"At n = {problem.n}: {'; '.join(words)}. After an exactly rank-one step the distance {rank_one}, after the exact one "
            f"it {exact}."
        ),
        surprise=(
            "After the exact gradient step and for α > 1/4 our theory says that a part must remain: the gradient's own fluctuations change the lengths of the "
            "rows of W, which shifts column j of F by c₂φ E r² Var σ′ η²a_j². Over √n that constant-vector part has size "
            f"√3 c₂φ E r² Var σ′ η²/√N = {constant_part(problem):.3f}, which grows like n^{2 * last.alpha - 0.5:.2f}; the column means "
            f"measured are {pm(means[0])} at n = {last.runs[0].problem.n} and {pm(means[-1])} at n = {problem.n}."
        ),
        rows=rows,
    )


def _words(falls: Mapping[str, Sequence[Check]]) -> str:
    """From the question whether each distance falls, after either step."""
    exact, rank_one = (together(falls[step]) for step in STEPS)
    if rank_one is Agreement.AGREES and exact is Agreement.DIFFERS:
        return f"{PARTLY}: after a rank-one step, not after the exact one"
    return decide([c for found in falls.values() for c in found], fails=NOT_YET)


def draw(windows: list[Window]) -> Figure:
    """The distances along n."""
    ns = ns_of(windows[0].runs)
    cases = [(window, step) for window in windows for step in STEPS]
    series = [points(w.named(step), ns, w.distances(step), i) for i, (w, step) in enumerate(cases)]
    options = {"logx": True, "logy": True, "xticks": ns}
    means: list[Series] = []
    for i, window in enumerate(windows):
        theory = [constant_part(run.problem) for run in window.runs]
        found = [run.column_means for run in window.runs]
        means.append(points(window.named("exact"), ns, found, len(STEPS) * i))
        means.append(Series("theory: the part that remains", ns, theory, colour=len(STEPS) * i))
    panels = [
        Panel("distance of F to its expansion", "n", "‖F − F_ℓ‖/√n", series, **options),
        Panel("its part along the constant vector", "n", "column means of F − F_ℓ", means, **options),
    ]
    caption = (
        "Operator norm of F − F_ℓ over √n, and the length of the vector of its column means (exact step), with the part that theory says remains (lines). ReLU, teacher H₁ + H₂/√2, no noise, η = n^α, "
        f"labels-only gradient, d = n/2, N = 3n/2; mean ± standard error of {seeds_of(windows[0].runs)}."
    )
    distances = {w.named(step): growth(ns, w.distances(step)) for w, step in cases}
    title = "‖F − F_ℓ‖/√n goes like " + ", ".join(f"n^({e:.2f}) ({name})" for name, (e, _) in distances.items())
    return Figure(panels, caption, title=title)
