"""The ground of the described things: frozen models whose mistakes are told as sentences, and the numbers in them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic_core import PydanticCustomError

from onestride._errors import InputError, hint, quoted

_LARGEST = 10**300  # of a size, which must be a finite number in floating point


def fail(allowed: str, given: object) -> PydanticCustomError:
    return PydanticCustomError("input", "must be {allowed}, got {given}", {"allowed": allowed, "given": quoted(given)})


def _whole(value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = int(value) if isinstance(value, float) and value.is_integer() else 0
    if isinstance(value, bool) or number < 1:
        raise fail("a whole number, 1 or more", value)
    if number > _LARGEST:
        raise fail("a whole number of at most 1e300", value)
    return number


def _real(allowed: str, test: Callable[[float], bool]) -> BeforeValidator:
    def check(value: Any) -> float:
        try:
            number = float(value) if not isinstance(value, str | bool) else math.nan
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not (math.isfinite(number) and test(number)):
            raise fail(allowed, value)
        return number

    return BeforeValidator(check)


def _spec(value: Any, callables: bool) -> Any:
    """A name, a tuple of finite floats, or (for teachers) a callable."""
    if isinstance(value, str):
        return value
    if callables and callable(value):
        if type(value).__hash__ is None:
            raise fail("hashable when it is a function (wrap it: lambda z: f(z))", type(value).__name__)
        return value
    kinds = "a name, a list of Hermite coefficients or a function" if callables else "a name or Hermite coefficients"
    try:
        numbers = tuple(float(v) for v in value)
    except (TypeError, ValueError, OverflowError):
        raise fail(kinds, value) from None
    if not numbers or not all(map(math.isfinite, numbers)):
        raise fail(f"{kinds}, all finite", value)
    return numbers


Count = Annotated[int, BeforeValidator(_whole)]
Positive = Annotated[float, _real("a finite number above 0", lambda x: x > 0)]
NonNegative = Annotated[float, _real("a finite number, 0 or more", lambda x: x >= 0)]
Real = Annotated[float, _real("a finite number", lambda _: True)]
ActivationSpec = Annotated[str | tuple[float, ...], BeforeValidator(lambda value: _spec(value, False))]
TeacherSpec = Annotated[Any, BeforeValidator(lambda value: _spec(value, True))]


class Frozen(BaseModel):
    """A frozen model whose mistakes are told as sentences, all at once."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    if not TYPE_CHECKING:

        def __init__(self, *unnamed: Any, **data: Any) -> None:
            if unnamed:
                raise InputError(f"arguments go by name, {_called(type(self))}, got {quoted(unnamed[0])} without one")
            try:
                super().__init__(**data)
            except ValidationError as error:
                raise InputError(_sentences(type(self), error)) from None

    def replace(self, **changes: Any) -> Self:
        """A validated copy with some fields changed."""
        return type(self)(**{name: getattr(self, name) for name in type(self).model_fields} | changes)


def _called(model: type[BaseModel]) -> str:
    """How one is made: the arguments it needs, or all where it needs none."""
    fields = model.model_fields
    needed = [name for name, field in fields.items() if field.is_required()] or list(fields)
    return f"{model.__name__}({', '.join(f'{name}=…' for name in needed)})"


def _sentences(model: type[BaseModel], error: ValidationError) -> str:
    lines: list[str] = []
    for item in error.errors():
        name = (
            ".".join(str(part) for part in item["loc"] if not str(part).startswith(("function-", "tuple["))) or "step"
        )
        if item["type"] == "extra_forbidden":
            lines.append(f"{name} is not an argument of {model.__name__}; {hint(item['loc'][-1], model.model_fields)}")
        elif item["type"] == "missing":
            lines.append(f"{name} is missing")
        elif item["type"] == "literal_error":
            lines.append(f"{name} must be {item['ctx']['expected']}, got {quoted(item['input'])}")  # pyright: ignore
        elif item["type"] in ("model_type", "bool_type", "bool_parsing"):
            kind = "a Step(constant=…, exponent=…)" if item["type"] == "model_type" else "True or False"
            lines.append(f"{name} must be {kind}, got {quoted(item['input'])}")
        elif item["type"] == "value_error":
            told = str(item["ctx"]["error"])  # pyright: ignore
            named = told.replace("=", " ").replace(":", " ").split(" ")[0] in model.model_fields
            lines.append(told if named else f"{name}: {told}")
        else:
            lines.append(f"{name} {item['msg'][0].lower()}{item['msg'][1:]}")
    return "; ".join(dict.fromkeys(lines))
