"""What an experiment is given (`Settings`), what its parts return (`Judgement`, `Figure`) and the whole (`Outcome`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from onestride._backend import require_device
from onestride.experiments.verdict import Verdict
from onestride.functions import InputError
from onestride.plot import Panel
from onestride.result import Result, plain
from onestride.shown import Variables
from onestride.simulation.arguments import seed_tuple

Progress = Callable[[float], None]  # told how much is done, from 0 to 1


def told(progress: Progress, start: float, end: float) -> Callable[[int, int], None]:
    """What a measurement tells, done of so many, as the part of an experiment from `start` to `end`."""
    return lambda done, total: progress(start + (end - start) * done / total)


SIZE_NAMES = ("small", "standard", "large")


@dataclass(frozen=True)
class Settings:
    """How large, how many seeds (None: the experiment's own choice), and where progress goes (a fraction from 0 to 1).

    `scale` multiplies the sample sizes `n` and `ns` of the experiment, which become multiples of 20.

    >>> from onestride.experiments.outcome import Settings
    >>> Settings("small", seeds=4)
    Settings(size='small', seeds=4, device='cpu', scale=1.0)
    """

    size: str = "standard"
    seeds: int | None = None
    device: str = "cpu"
    report: Progress | None = field(default=None, repr=False)
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.size not in SIZE_NAMES:
            raise InputError(f"size must be one of {', '.join(SIZE_NAMES)}, got {self.size!r}")
        if self.seeds is not None and self.seeds < 2:
            raise InputError(f"seeds must be 2 or more to give an error bar, got {self.seeds}")
        seed_tuple(1 if self.seeds is None else self.seeds)  # says that they are too many before the work
        require_device(self.device)

    def of(self, sizes: Mapping[str, tuple[Any, Any, Any]]) -> SimpleNamespace:
        """The column of this size in a table of (small, standard, large) by name; names that end in `seeds` as asked for; and `device`."""
        chosen = {name: values[SIZE_NAMES.index(self.size)] for name, values in sizes.items()}
        if self.scale != 1:
            sizes_of = {"n": self._scaled, "ns": lambda ns: tuple(map(self._scaled, ns))}
            chosen |= {name: scaled(chosen[name]) for name, scaled in sizes_of.items() if name in chosen}
        if self.seeds is not None:
            chosen |= {name: self.seeds for name in sizes if name.endswith("seeds")}
        return SimpleNamespace(**chosen, device=self.device)

    def _scaled(self, n: int) -> int:
        return max(20, 20 * round(self.scale * n / 20))

    def progress(self, fraction: float) -> None:
        """Tell how much of the experiment is done."""
        if self.report is not None:
            self.report(fraction)


@dataclass(frozen=True)
class Judgement:
    """What the data say: the verdict in a few words, the finding with the numbers that decide it, what we did not expect."""

    words: str
    finding: str
    surprise: str
    rows: list[dict[str, Any]] = field(repr=False)

    @property
    def verdict(self) -> Verdict:
        """The kind of verdict that `words` begin with."""
        return Verdict.of(self.words)


@dataclass(frozen=True)
class Figure:
    """Panels with a caption that says sizes, seeds and what is fixed; the title is the answer, in the numbers of this run."""

    panels: Sequence[Panel] = field(repr=False)
    caption: str
    columns: int = 2
    title: str = ""


@dataclass(frozen=True, repr=False)
class Outcome(Result):
    """One experiment: the question, what the paper (or the folklore) claims, the judgement and the figure behind it."""

    _judged = ("judgement.finding", "judgement.surprise", "judgement.rows")
    _told = ("name", "question", "claim", "verdict", *_judged, "figure.caption")
    _brief = ("name", "verdict")
    _sentences = ("finding",)

    name: str
    question: str
    claim: str
    judgement: Judgement
    figure: Figure

    @property
    def verdict(self) -> str:
        """The verdict in a few words."""
        return self.judgement.words

    @property
    def finding(self) -> str:
        """The numbers that decide it, in words."""
        return self.judgement.finding

    def panels(self) -> Sequence[Panel]:
        """The panels of its figure."""
        return self.figure.panels

    def _axes(self) -> dict[str, Sequence[int]]:
        return {"row": range(len(self.judgement.rows))}

    def _variables(self) -> Variables:
        rows = self.judgement.rows
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: (("row",), [plain(row.get(name)) for row in rows]) for name in names}
