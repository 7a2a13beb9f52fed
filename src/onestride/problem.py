"""The problem: every size, scaling and normalisation, written here once and shared by theory and simulation.

data       x ~ N(0, I_d),  y = σ⋆(β⋆ᵀx) + ε,  |β⋆| = 1,  ε ~ N(0, noise²)
           other laws of x, all with E|x|² = d, and teachers y = g(β₁ᵀx, …, β_kᵀx) + ε of several orthonormal directions:
           `inputs`, `directions`; where x has a covariance Σ directions are orthonormal in it, β⋆ᵀΣβ⋆ = 1, so that labels keep their law
network    f(x) = aᵀσ(Wx),  rows of W₀ on the unit sphere,  a ~ N(0, I_N/N)
step       W = W₀ + ηG,  G = −∂/∂W (1/2n)‖y − σ(XWᵀ)a‖²,  η = c·n^α;  repeated `steps` times with a kept as it was
ridge      min_a (1/n)‖ỹ − Fa‖² + λ‖a‖²,  F = σ(X̃Wᵀ),  X̃ fresh, or the samples of the step (`fresh`)
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, ValidationInfo, field_serializer, field_validator, model_validator

from onestride import _html, functions
from onestride._errors import quoted
from onestride._fields import ActivationSpec, Count, Frozen, NonNegative, Positive, TeacherSpec, fail
from onestride._numerics import Array, Float
from onestride.functions import Function, InputError
from onestride.inputs import Covariance, InputLaw, input_law, read_inputs
from onestride.step import Schedule as Schedule
from onestride.step import Step as Step
from onestride.table import Table
from onestride.teachers import Target
from onestride.teachers import teacher as teacher_of

MOST_STEPS = 10**6  # of which a list of sizes is kept
EXTENSIONS = ("inputs", "steps", "batch", "fresh", "directions", "mix")  # fields beyond the papers' model


class Problem(Frozen):
    """One learning problem; theory and simulation read nothing else.

    Parameters
    ----------
    n
        Samples of the ridge regression.
    d
        Inputs; φ = d/n.
    N
        Neurons; ψ = d/N.
    activation
        A registered name or Hermite coefficients of a polynomial.
    teacher
        A registered name, Hermite coefficients (``[0, 1, 0.7071]`` is H₁ + H₂/√2), or any function of an array. With
        ``directions=k`` a function that takes an array (…, k) to (…) is a function of all k coordinates, such as
        ``lambda z: z[..., 0] * z[..., 1]``, for k ≤ 3. Always centred, E σ⋆ = 0.
    noise
        Standard deviation of the label noise, σ_ε.
    ridge
        The penalty λ > 0.
    step
        η = c·n^α. A list, ``[Step(exponent=0.2), Step(exponent=0.4)]``, gives each of several steps its own size (`Schedule`).
    gradient
        ``"full"``: the literal gradient of the squared loss, with the residual y − f₀(x). ``"labels"``: y in its place,
        which is what the paper's β = Xᵀy/n describes.
    weights
        Rows of W₀: ``"sphere"`` (unit length) or ``"gaussian"`` (variance 1/d per entry).
    readout
        a: ``"gaussian"`` N(0, 1/N), ``"constant"`` 1/√N or ``"rademacher"`` ±1/√N.
    n_step
        Samples of the gradient step; n when None.
    centred
        Subtract the activation's mean c₀, as the theory assumes.
    inputs
        Law of x. Independent entries of mean 0 and variance 1: ``"gaussian"``, ``"uniform"``, ``"rademacher"`` (±1),
        ``"student"`` (5 degrees of freedom). Centred Gaussians whose covariance has trace d: ``"ar1"``
        (Σ_ij = 0.8^|i−j|), ``"power"`` (eigenvalues ∝ k^−½). ``"elliptic"``: a Gaussian vector times one random length
        for all its entries, the multivariate Student law with 5 degrees of freedom and identity covariance. Or a
        ``Covariance`` of one's own, by its eigenvalues, a matrix or a spike. `inputs.py` has them all and takes more.
        The teacher's direction is scaled to β⋆ᵀΣβ⋆ = 1, Σ the covariance of the law.
    steps
        First-layer steps W_{t+1} = W_t + η_t G(W_t), all of size η unless `step` is a list, whose length it then is; the
        readout a stays at its initial value.
    batch
        ``"fresh"``: new samples for every step; ``"reused"``: all steps on the samples of the first.
    fresh
        Whether the ridge regression has samples of its own. False: it is fitted on those of the step, as many as it has; with
        several steps that needs ``batch="reused"``, and is simulated but not predicted.
    directions
        Orthonormal directions β₁ … β_k of the teacher; with z_j = β_jᵀx and k = 1 this is σ⋆(β⋆ᵀx).
    mix
        How a teacher of one coordinate makes a label of several: ``"sum"`` Σ_j σ⋆(z_j)/√k, or ``"staircase"``
        Σ_j σ⋆(z₁)⋯σ⋆(z_j)/√k. A function of all coordinates needs none.

    >>> problem = one.Problem(n=200, d=100, N=150, activation="tanh", step=one.Step(constant=2, exponent=0.3))
    >>> problem
    Problem(n=200, d=100, N=150, activation='tanh', step=Step(constant=2.0, exponent=0.3))
    >>> print(f"η = {problem.eta:.2f}, φ = {problem.phi}, ψ = {problem.psi:.3f}")
    η = 9.80, φ = 0.5, ψ = 0.667
    >>> problem.replace(ridge=1.0).ridge
    1.0
    """

    n: Count
    d: Count
    N: Count
    activation: ActivationSpec = "relu"
    teacher: TeacherSpec = (0.0, 1.0)
    noise: NonNegative = 0.0
    ridge: Positive = 0.1
    step: Step = Step.none()
    gradient: Literal["full", "labels"] = "full"
    weights: Literal["sphere", "gaussian"] = "sphere"
    readout: Literal["gaussian", "constant", "rademacher"] = "gaussian"
    n_step: Count | None = None
    centred: bool = True
    inputs: str | Covariance = "gaussian"
    steps: Count = 1
    batch: Literal["fresh", "reused"] = "fresh"
    fresh: bool = True
    directions: Count = 1
    mix: Literal["sum", "staircase"] = Field(default="sum", validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _fields_of_its_table(cls, data: Any) -> Any:
        inputs: Any = data.get("inputs")
        if not isinstance(inputs, dict) or "table" not in inputs:
            return data
        from onestride.own_table import table_again  # reads files

        table = table_again(cast("dict[str, Any]", inputs)["table"])
        return {"n": table.rows} | table.fields | data | {"inputs": table}

    @model_validator(mode="before")
    @classmethod
    def _as_many_steps_as_sizes(cls, data: Any) -> Any:
        step: Any = data.get("step")
        if not isinstance(step, list | tuple | Schedule):
            return data
        each = cast("Sequence[Any]", step.each if isinstance(step, Schedule) else step)
        if not each or not all(isinstance(one, Step | dict) for one in each):
            raise InputError(f"step must be a Step(constant=…, exponent=…) or a list of them, got {step!r}")
        if data.get("steps", 1) not in (1, len(each)):
            raise InputError(
                f"steps must be left out or {len(each)} when step is a list of {len(each)}, got {data['steps']!r}"
            )
        return data | {"step": Schedule.of(each), "steps": len(each)}

    @field_serializer("step")
    def _step_as_data(self, step: Step) -> Any:
        return step.as_data()

    @field_validator("activation")
    @classmethod
    def _known_activation(cls, spec: Any) -> Any:
        functions.activation(spec)
        return spec

    @field_validator("teacher")
    @classmethod
    def _known_teacher(cls, spec: Any) -> Any:
        if not (isinstance(spec, str) or callable(spec)) and functions.teacher(spec) and spec[0] != 0:
            raise InputError(
                f"the first Hermite coefficient is the mean of the labels and must be 0 (teachers are centred), "
                f"got {spec[0]:g}"
            )
        return spec

    @field_validator("inputs", mode="before")
    @classmethod
    def _known_law(cls, given: Any, info: ValidationInfo) -> str | Covariance:
        return read_inputs(given, info.data.get("d"))  # a wrong d has a sentence of its own

    @field_validator("steps")
    @classmethod
    def _steps_to_count(cls, steps: int) -> int:
        if steps > MOST_STEPS:
            raise fail(f"a whole number from 1 to {MOST_STEPS:,}", steps)
        return steps

    @field_validator("fresh")
    @classmethod
    def _one_batch(cls, fresh: bool, info: ValidationInfo) -> bool:
        given = info.data
        if fresh or not {"n", "n_step", "steps", "batch"} <= given.keys():
            return fresh
        if given["n_step"] not in (None, given["n"]):
            raise InputError(
                f"fresh=False needs n_step = n (or none), got n_step = {given['n_step']}, n = {given['n']}"
            )
        if given["steps"] > 1 and given["batch"] == "fresh":
            raise InputError(f'fresh=False needs one batch: steps = 1 or batch="reused", got steps = {given["steps"]}')
        return fresh

    @field_validator("directions")
    @classmethod
    def _directions_fit(cls, directions: int, info: ValidationInfo) -> int:
        if directions > info.data.get("d", directions):
            raise fail(f"at most d = {info.data['d']}, as orthonormal directions are", directions)
        return directions

    @field_validator("mix")
    @classmethod
    def _teacher_of_its_directions(cls, mix: str, info: ValidationInfo) -> str:
        if {"teacher", "directions"} <= info.data.keys():  # else they have a sentence of their own
            try:
                teacher_of(info.data["teacher"], info.data["directions"], mix)
            except InputError as error:
                told = str(error)
                raise InputError(
                    told if told.startswith(("mix", "directions", "teacher")) else f"teacher: {told}"
                ) from None
        return mix

    # ------------------------------------------------------------------ derived quantities

    @property
    def phi(self) -> float:
        """φ = d/n."""
        return self.d / self.n

    @property
    def psi(self) -> float:
        """ψ = d/N."""
        return self.d / self.N

    @property
    def step_samples(self) -> int:
        """Samples of the gradient step."""
        return self.n if self.n_step is None else self.n_step

    @property
    def eta(self) -> float:
        """η = c·n^α; of a list of steps with the largest c and α, which its steps are measured by."""
        return self.step.size(self.n)

    @property
    def etas(self) -> tuple[float, ...]:
        """η of every step."""
        return self.step.sizes(self.n, self.steps)

    @property
    def known_noise(self) -> float:
        """The part σ_ε² of the test error that nothing lowers; of a table nobody knows it."""
        return 0.0 if isinstance(self.inputs, Table) else self.noise**2

    @property
    def sigma(self) -> Function:
        """The activation σ."""
        return functions.activation(self.activation, centred=self.centred)

    @property
    def law(self) -> InputLaw:
        """The law of the inputs x, with their covariance Σ; the teacher's argument has β⋆ᵀΣβ⋆ = 1."""
        return input_law(self.inputs)

    @property
    def target(self) -> Target:
        """The teacher: σ⋆ of one coordinate, or g of several."""
        return teacher_of(self.teacher, self.directions, self.mix)

    def at(self, *, exponent: float | None = None, ridge: float | None = None) -> Problem:
        """The same problem at another exponent of the step (of a list: all move alike, the largest to it) or penalty."""
        changes: dict[str, Any] = {}
        if exponent is not None:
            changes["step"] = self.step.replace(exponent=exponent)
        if ridge is not None:
            changes["ridge"] = ridge
        return self.replace(**changes)

    def in_proportion(self, factor: float) -> Problem:
        """The same problem with n, d, N and n_step multiplied; counts are whole."""
        names = ("n", "d", "N", "n_step") if self.n_step else ("n", "d", "N")
        return self.replace(**{name: max(round(getattr(self, name) * factor), 1) for name in names})

    # ------------------------------------------------------------------ words

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """What is not as by default, so that the repr is what one would type."""
        for name, part in type(self).model_fields.items():
            value = getattr(self, name)
            if part.is_required() or value != part.default:
                yield name, list(cast("Any", value)) if isinstance(value, tuple) else value

    def __str__(self) -> str:
        """One line: the main fields, and the others where they are not the default; of a table what is known of it."""
        step = f"η = {self.step.constant:g}·n^{self.step.exponent:g} = {self.eta:.4g}" if self.eta else "no step"
        if isinstance(self.inputs, Table):
            unit = f"errors are shares of the variance of the target, {self.inputs.target_scale**2:.4g}"
            return f"{self.inputs.facts}\nn = {self.n}, N = {self.N}; {self.sigma.name}, λ = {self.ridge:g}, {step}; {unit}"
        each = "" if len(set(self.etas)) == 1 else " (" + ", ".join(f"{eta:.4g}" for eta in self.etas) + ")"
        shown = {"n", "d", "N", "activation", "teacher", "noise", "ridge", "step", "gradient"}
        others = {name: getattr(self, name) for name in type(self).model_fields if name not in shown}
        changed = [f", {k} {v}" for k, v in others.items() if v != type(self).model_fields[k].default]
        return (
            f"n = {self.n}, d = {self.d}, N = {self.N}; {self.sigma.name}, teacher {self.target.name}, noise {self.noise:g}, "
            f"λ = {self.ridge:g}, {step}{each}, {self.gradient} gradient{''.join(changed)}"
        )

    def _repr_html_(self) -> str:
        table = isinstance(self.inputs, Table)
        data = (
            str(self.inputs)
            if table
            else f"x ~ {self.inputs}, d = {self.d}; y = σ⋆ + ε, σ⋆ = {self.target.name}, noise {self.noise:g}"
        )
        taken = f"η = {self.step.constant:g}·n^{self.step.exponent:g} = {self.eta:.4g}" if self.eta else "none"
        lines = {
            "data": data,
            "network": f"f(x) = aᵀσ(Wx), σ = {self.sigma.name}, N = {self.N}, {self.weights} rows, {self.readout} readout",
            "step": f"W = W₀ + ηG: {taken}" + (f", {self.steps} times ({self.batch} batch)" if self.steps > 1 else ""),
            "ridge": f"min (1/n)‖ỹ − Fa‖² + λ‖a‖²: n = {self.n}, λ = {self.ridge:g}",
            "ratios": f"φ = d/n = {self.phi:.4g}, ψ = d/N = {self.psi:.4g}",
        }
        return _html.table("Problem", lines.items())

    # ------------------------------------------------------------------ files

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings and lists; what is None is left out. Of a table it is told where it was read, not its rows."""
        if callable(self.teacher):
            raise InputError(
                "teacher is a Python function and cannot be written to a file; give it a name first: "
                'register("name", function), then Problem(teacher="name")'
            )
        if isinstance(self.inputs, Table):
            own = {name for name, value in self.inputs.fields.items() if name != "d" and getattr(self, name) == value}
            return json.loads(self.model_dump_json(exclude_none=True, exclude=own)) | {"inputs": self.inputs.as_data()}
        return json.loads(self.model_dump_json(exclude_none=True))

    def to_json(self) -> str:
        """JSON text; `Problem.from_json` reads it."""
        return json.dumps(self.to_dict(), indent=2)

    def to_toml(self) -> str:
        """TOML text; `Problem.from_toml` reads it."""
        import tomli_w

        return tomli_w.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Problem:
        """The inverse of `to_dict`."""
        return cls._from_parsed(data, "a dictionary")

    @classmethod
    def from_json(cls, text: str) -> Problem:
        """Read JSON text."""
        return cls._from_text(text, json.loads, "JSON")

    @classmethod
    def from_toml(cls, text: str) -> Problem:
        """Read TOML text."""
        return cls._from_text(text, tomllib.loads, "TOML")

    @classmethod
    def _from_text(cls, text: Any, parse: Callable[[str], Any], kind: str) -> Problem:
        if not isinstance(text, str):
            raise InputError(f"a problem in {kind} is text, got {quoted(text)}")
        try:
            data = parse(text)
        except (ValueError, RecursionError) as error:  # also lists nested too deeply, or thousands of digits
            raise InputError(f"this is not valid {kind}: {error}") from None
        return cls._from_parsed(data, kind)

    @classmethod
    def _from_parsed(cls, data: Any, kind: str) -> Problem:
        if not isinstance(data, dict):
            raise InputError(f"a problem in {kind} is a table of named values, got {type(data).__name__}")
        return cls(**cast("dict[str, Any]", data))


def grid_axis(name: str, values: ArrayLike, *, positive: bool = False) -> Float[Array, "axis"]:
    """A validated one-dimensional axis of a grid."""
    allowed = "finite numbers above 0" if positive else "finite numbers"
    try:
        given = np.asarray(values)
        axis = np.atleast_1d(given.astype(float, casting="unsafe" if given.dtype.kind == "O" else "same_kind"))
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be a list of {allowed}, got {quoted(values)}") from None
    if axis.ndim != 1 or not axis.size or not np.isfinite(axis).all() or (positive and not (axis > 0).all()):
        raise InputError(f"{name} must be a non-empty list of {allowed}, got {quoted(axis.tolist())}")
    return axis


def expect(problem: object) -> None:
    """Say so where something else is given in a problem's place."""
    if not isinstance(problem, Problem):
        raise InputError(f"problem must be a Problem(n=…, d=…, N=…), got {quoted(problem)}")


def exponent_axis(problem: Problem, values: ArrayLike) -> Float[Array, "axis"]:
    """The exponents of a grid; a problem that takes no step (c = 0) has none but its own."""
    axis = grid_axis("exponents", values)
    if problem.step.constant == 0 and (axis != problem.step.exponent).any():
        raise InputError(
            f"exponents must be [{problem.step.exponent:g}] for a problem that takes no step (η = c·n^α with c = 0), "
            f"got {axis.size} exponents from {axis.min():g} to {axis.max():g}; give it one: step=Step(constant=1)"
        )
    return axis
