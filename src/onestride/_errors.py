"""Wrong input and missing libraries, below everything so that every layer can raise them."""

import difflib
import math
import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from importlib.util import find_spec
from numbers import Integral
from typing import TypeGuard

Needs = dict[str, tuple[str, list[str]]]  # of each extra: for what, and which of its libraries


class InputError(ValueError):
    """A wrong argument, told in a sentence: which one, what was given, what is allowed.

    >>> try:
    ...     one.Problem(n=10, d=0, N=5)
    ... except one.InputError as error:
    ...     print(error)
    d must be a whole number, 1 or more, got 0
    """


class MissingLibrary(InputError, ImportError):
    """An optional library is not installed; the sentence has the command that installs it."""

    needs: Needs


def is_whole(value: object) -> TypeGuard[int]:
    """Whether it is a whole number, Python's or NumPy's; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


_LONG = 80  # letters of what was given, in a sentence


def quoted(given: object) -> str:
    """What was given, as a sentence quotes it: in one line, and not endless."""
    try:
        text = " ".join(repr(given).split())
    except ValueError:
        return "a number of thousands of digits"
    return text if len(text) <= _LONG else f"{text[: _LONG - 1]}…"


def one_of(name: str, given: object, allowed: Iterable[str]) -> None:
    """Refuse what is none of these words."""
    words = tuple(allowed)
    if isinstance(given, str) and given in words:
        return
    few, many = f"{', '.join(map(repr, words[:-1]))} or {words[-1]!r}", f"one of {', '.join(words)}"
    raise InputError(f"{name} must be {few if len(words) <= 3 else many}, got {quoted(given)}")


def true_or_false(**given: object) -> None:
    """Refuse switches that are neither."""
    for name, value in given.items():
        if not isinstance(value, bool) and type(value).__name__ != "bool":  # NumPy's, which is known further up
            raise InputError(f"{name} must be True or False, got {quoted(value)}")


WHOLE = "whole number"
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def short(text: str) -> str:
    """What somebody typed, as a sentence quotes it."""
    return repr(text if len(text) <= 60 else text[:57] + "…")


def typed_number(name: str, text: str, kind: str = "finite number") -> float:
    """A number as people type it: a decimal such as 0.3, or a fraction of two such as 1/3."""
    parts = [part.strip() for part in text.split("/")]
    number = math.nan
    if len(parts) <= 2 and all(map(_DECIMAL.fullmatch, parts)):
        top, low = map(float, (*parts, "1")[:2])
        number = top / low if low else math.nan
    if not math.isfinite(number):
        raise InputError(f"{name} must be a {kind}{_without_commas(text, kind)}, got {short(text)}")
    return number


def typed_whole(name: str, text: str) -> int:
    """A whole number as people type it: 2000, 2_000, 1e6; 1.5 is none."""
    plain = text.strip()
    if re.fullmatch(r"[+-]?\d+(_\d+)*", plain, re.ASCII) and len(plain) <= 400:
        return int(plain)
    number = typed_number(name, text, WHOLE)
    if "/" in text or not number.is_integer():
        raise InputError(f"{name} must be a whole number, got {short(text)}")
    return int(Fraction(plain))  # 1e30 is 10³⁰, not the double next to it


def _without_commas(text: str, kind: str) -> str:
    """What to type in place of a number with commas: 0,3 is three tenths, 2,000 two thousand or 2; of whole numbers 2000."""
    if not re.fullmatch(r"\s*[+-]?\d+(,\d+)+(\.\d*)?\s*", text, re.ASCII):
        return ""
    plain, point = text.strip().replace(",", ""), text.strip().replace(",", ".")
    grouped = re.fullmatch(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?", text.strip(), re.ASCII)
    if kind == WHOLE:
        return f" without commas (type {plain})" if grouped and "." not in text else ""
    several = text.count(",") > 1 or "." in text
    hint = plain if several else f"{plain} or {point}" if grouped else point
    return f" without commas (type {hint})"


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """The known name closest to a wrong one, as a question; nothing when none is close."""
    close = difflib.get_close_matches(str(word), list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else ""


def hint(word: object, known: Iterable[str]) -> str:
    """What to do about a wrong name: the closest one as a question, else all that are known."""
    known = tuple(known)
    return did_you_mean(word, known) or f"known: {', '.join(known)}"


def require(*libraries: str, extra: str, what: str) -> None:
    """Raise one sentence with the install command unless `what` finds all its libraries; call it before the work."""
    missing = [_DISTRIBUTION.get(name, name) for name in libraries if not _installed(name)]
    if missing:
        raise _missing({extra: (what, missing)})


def require_all(*checks: Callable[[], None]) -> None:
    """Make checks that call `require`, and raise one sentence, with one command, for all that is missing."""
    needs: Needs = {}
    for check in checks:
        try:
            check()
        except MissingLibrary as error:
            needs |= {extra: need for extra, need in error.needs.items() if extra not in needs}
    if needs:
        raise _missing(needs)


def _missing(needs: Needs) -> MissingLibrary:
    told = [
        f"{what} needs {' and '.join(filter(None, (', '.join(names[:-1]), names[-1])))}"
        for what, names in needs.values()
    ]
    several = sum(len(names) for _, names in needs.values()) > 1
    are = "which are" if several else "which is"
    error = MissingLibrary(f"{', '.join(told)}, {are} not installed: pip install 'onestride[{','.join(needs)}]'")
    error.needs = needs
    return error


_DISTRIBUTION = {"sklearn": "scikit-learn"}


def _installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # a finder that refuses, a module without a spec
        return False
