"""What an experiment is given (`Settings`) and what it returns (`Outcome`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from onestride._backend import require_device
from onestride.functions import InputError
from onestride.plot import Panel

T = TypeVar("T")
SIZE_NAMES = ("small", "standard", "large")


@dataclass(frozen=True)
class Settings:
    """How large, how many seeds (None: the experiment's own choice), and where progress goes (a fraction from 0 to 1)."""

    size: str = "standard"
    seeds: int | None = None
    device: str = "cpu"
    report: Callable[[float], None] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.size not in SIZE_NAMES:
            raise InputError(f"size must be one of {', '.join(SIZE_NAMES)}, got {self.size!r}")
        if self.seeds is not None and self.seeds < 2:
            raise InputError(f"seeds must be 2 or more to give an error bar, got {self.seeds}")
        require_device(self.device)

    def pick(self, small: T, standard: T, large: T) -> T:
        """The value for this size."""
        return {"small": small, "standard": standard, "large": large}[self.size]

    def seed_count(self, small: int, standard: int, large: int) -> int:
        """The number of seeds asked for, else the experiment's own for this size."""
        return self.pick(small, standard, large) if self.seeds is None else self.seeds

    def progress(self, fraction: float) -> None:
        """Tell how much of the experiment is done."""
        if self.report is not None:
            self.report(fraction)


@dataclass(frozen=True)
class Outcome:
    """One experiment: the question, what is claimed, what was found, and the figure behind it.

    claim
        What the paper (or the folklore) says.
    verdict
        A few words: holds, holds in part, not at this size, does not hold, or a finding of its own.
    finding
        The verdict in sentences, with the numbers that decide it and their errors.
    surprise
        What we did not expect.
    rows
        The deciding numbers, one dictionary per line.
    """

    name: str
    question: str
    claim: str
    verdict: str
    finding: str
    surprise: str
    rows: list[dict[str, Any]] = field(repr=False)
    panels: tuple[Panel, ...] = field(repr=False)
    caption: str = field(repr=False)
    columns: int = 2

    def to_dict(self) -> dict[str, Any]:
        """Words and numbers, without the figure."""
        names = ("name", "question", "claim", "verdict", "finding", "surprise", "rows", "caption")
        return {name: getattr(self, name) for name in names}
