"""Wrong input and missing libraries, below everything so that every layer can raise them."""

from importlib.util import find_spec


class InputError(ValueError):
    """A wrong argument, told in a sentence: which one, what was given, what is allowed."""


class MissingLibrary(InputError, ImportError):
    """An optional library is not installed; the sentence has the command that installs it."""


def require(*libraries: str, extra: str, what: str) -> None:
    """Raise one sentence with the install command unless `what` finds all its libraries; call it before the work."""
    missing = [_DISTRIBUTION.get(name, name) for name in libraries if not _installed(name)]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        names = " and ".join(missing)
        raise MissingLibrary(f"{what} needs {names}, which {verb} not installed: pip install 'onestride[{extra}]'")


_DISTRIBUTION = {"sklearn": "scikit-learn"}


def _installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # a finder that refuses, a module without a spec
        return False
