"""Wrong input and missing libraries, below everything so that every layer can raise them."""

import difflib
from collections.abc import Iterable
from importlib.util import find_spec
from numbers import Integral
from typing import TypeGuard


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


def is_whole(value: object) -> TypeGuard[int]:
    """Whether it is a whole number, Python's or NumPy's; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


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
        *others, last = missing
        names = f"{', '.join(others)} and {last}, which are" if others else f"{last}, which is"
        raise MissingLibrary(f"{what} needs {names} not installed: pip install 'onestride[{extra}]'")


_DISTRIBUTION = {"sklearn": "scikit-learn"}


def _installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # a finder that refuses, a module without a spec
        return False
