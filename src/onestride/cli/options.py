"""Options that several commands share: how the result is shown and measured, and those that describe a problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter, Token

from onestride._errors import typed_number, typed_whole

if TYPE_CHECKING:
    from onestride.problem import Problem


def _whole(_: Any, tokens: Sequence[Token]) -> int:
    return typed_whole(tokens[0].keyword or "a number", tokens[0].value)


def _number(_: Any, tokens: Sequence[Token]) -> float:
    return typed_number(tokens[0].keyword or "a number", tokens[0].value)


MOST_BYTES = 2**24  # of a file with a problem

Whole = Annotated[int, Parameter(converter=_whole)]
MaybeWhole = Annotated[int | None, Parameter(converter=_whole)]
Number = Annotated[float, Parameter(converter=_number)]
MaybeNumber = Annotated[float | None, Parameter(converter=_number)]

Flag = Annotated[bool, Parameter(negative="")]
Json = Annotated[Flag, Parameter("--json", help="Print JSON.")]
Seeds = Annotated[Whole, Parameter(help="Number of independent repeats.")]
if TYPE_CHECKING:
    from onestride.theory.registry import Method as Method
else:  # any name at run time, where a theory may have been registered
    Method = Annotated[
        str, Parameter(help="Which theory: auto, profile, finite-step, plateau, exact-plateau or table.")
    ]
Device = Annotated[str, Parameter(help="As for simulate.")]
Size = Literal["small", "standard", "large"]
Results = Annotated[Path, Parameter(help="Folder of results.")]
SweepFile = Annotated[Path, Parameter(help="The TOML file that describes the sweep.")]
OneSweep = Annotated[Path | None, Parameter(help="Only the cells of this sweep file.")]


@Parameter(name="*")
@dataclass(frozen=True)
class ProblemOptions:
    """The problem; what is not given is in [brackets]. With --problem FILE the file is read first and options change it."""

    problem: Path | None = None
    "A TOML or JSON file with the fields of a Problem."
    data: Path | None = None
    "A table of one's own, .csv, .parquet or .npz, in place of a problem; n is then the number of its rows, N 512."
    target: str | None = None
    "The column of the table that is to be predicted [the last one]."
    n: Annotated[MaybeWhole, Parameter(name="--n")] = None
    "Samples of the ridge regression [2000]."
    d: Annotated[MaybeWhole, Parameter(name="--d")] = None
    "Inputs [1000]."
    N: Annotated[MaybeWhole, Parameter(name="--N")] = None
    "Neurons [3000]."
    activation: str | None = None
    "A name from `onestride functions`, or Hermite coefficients such as 0,1,0.3 [relu]."
    teacher: str | None = None
    "A name, or Hermite coefficients: 0,1,0.7071 is H1 + H2/√2 [0,1,0.7071]."
    noise: MaybeNumber = None
    "Standard deviation of the label noise [0.5]."
    ridge: MaybeNumber = None
    "Penalty λ [0.1]."
    constant: MaybeNumber = None
    "c in the step size η = c·n^α; 0 means no step [1]."
    exponent: MaybeNumber = None
    "α in the step size η = c·n^α [0.3]."
    gradient: str | None = None
    "full (the literal gradient) or labels (y in place of the residual) [full]."
    weights: str | None = None
    "sphere or gaussian rows of W₀ [sphere]."
    readout: str | None = None
    "gaussian, constant or rademacher [gaussian]."
    n_step: MaybeWhole = None
    "Samples of the gradient step [n]."
    steps: MaybeWhole = None
    "First-layer steps; sizes that differ are a list in the file [1]."
    batch: str | None = None
    "fresh or reused: the samples of further steps [fresh]."
    directions: MaybeWhole = None
    "Directions of the teacher [1]."
    mix: str | None = None
    "sum or staircase: how they make a label [sum]."
    inputs: str | None = None
    "Law of the inputs: gaussian, uniform, rademacher, student, ar1, power, elliptic; a covariance is in the file [gaussian]."
    fresh: bool | None = None
    "Samples of its own for the ridge regression, or with --no-fresh those of the step [fresh]."

    def _of_table(self, data: Path) -> Problem:
        """The problem behind a table, with the step and the sizes that were given."""
        from onestride.functions import InputError
        from onestride.own_data import from_data
        from onestride.step import Step

        if self.problem is not None:
            raise InputError("give --problem or --data, not both")
        given = {
            name: value for name, value in vars(self).items() if value is not None and name not in ("data", "target")
        }
        step = {"constant": 1.0, "exponent": 0.3}
        step |= {name: given.pop(name) for name in ("constant", "exponent") if name in given}
        if isinstance(given.get("activation"), str):
            given["activation"] = _function(given["activation"])
        return from_data(data, target=self.target, step=Step(**step), **given)

    def build(self) -> Problem:
        """The validated problem."""
        from onestride.functions import InputError
        from onestride.problem import Problem
        from onestride.step import read_step

        if self.data is not None:
            return self._of_table(self.data)
        if self.target is not None:
            raise InputError(f"--target names a column of --data, got --target {self.target} without it")
        default = {"n": 2000, "d": 1000, "N": 3000, "activation": "relu", "teacher": [0, 1, 0.7071], "noise": 0.5}
        data: dict[str, Any] = default | {"ridge": 0.1, "step": {"constant": 1.0, "exponent": 0.3}}
        if self.problem is not None:
            data = _read_problem(self.problem).to_dict()
        given = {name: value for name, value in vars(self).items() if value is not None and name != "problem"}
        step = {name: given.pop(name) for name in ("constant", "exponent") if name in given}
        functions = {name: _function(given[name]) for name in ("activation", "teacher") if name in given}
        data |= given | functions | {"step": read_step(data["step"]).replace(**step)}
        return Problem(**data)


def _read_problem(path: Path) -> Problem:
    """The problem in a file; whatever is wrong with it is told with its name."""
    from onestride.functions import InputError
    from onestride.problem import Problem

    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            raise InputError(f"--problem {path} must be at most {MOST_BYTES // 2**20} MiB long")
        words = text.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"--problem {path} cannot be read: {reason}") from None
    try:
        return (Problem.from_json if path.suffix == ".json" else Problem.from_toml)(words)
    except InputError as error:
        raise InputError(f"--problem {path}: {error}") from None


AS_IN_README = ProblemOptions()


def _function(text: str) -> str | list[Any]:
    """'relu' stays a name; '0,1,0.7' and '[0, 1, 0.7]' become numbers (what is not a number is left to Problem)."""
    stripped = text.strip().strip("[]")
    if "," not in stripped:
        return text

    def number(part: str) -> float | str:
        try:
            return float(part)
        except ValueError:
            return part.strip()

    return [number(part) for part in stripped.split(",")]
