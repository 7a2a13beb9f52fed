"""Shapes in signatures, `Float[Array, "n d"]`, checked at run time in tests: an axis name has one length in a call.

Only annotations with a shape are checked; wrong input of other kinds is the package's own to tell. A module's functions
are wrapped once it has run, before anybody can import them from it; inner functions and cached ones are left alone.
"""

import dataclasses
import functools
import inspect
import re
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from typing import get_args

from beartype import beartype
from jaxtyping import AbstractArray, jaxtyped

SHAPED = re.compile(r"\b(Float|Complex|Inexact|Int|Bool)\[")


def install():
    """Check the shapes of every module of the package that is imported from now on."""
    assert not [name for name in sys.modules if name.startswith("onestride.")], "install before the package is imported"
    sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        spec = PathFinder.find_spec(name, path) if name.startswith("onestride.") else None
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_check(module):
                run(module)
                check_module(module)

            spec.loader.exec_module = run_and_check
        return spec


def check_module(module):
    """Wrap the functions and classes that are defined in this module and speak of shapes."""
    for name, thing in list(vars(module).items()):
        if getattr(thing, "__module__", None) != module.__name__:
            continue
        if inspect.isclass(thing):
            _check_class(thing)
        elif inspect.isfunction(thing):
            setattr(module, name, checked(thing))


def _check_class(cls):
    for name, member in list(vars(cls).items()):
        if inspect.isfunction(member) and name != "__init__":
            setattr(cls, name, checked(member))
        elif isinstance(member, property) and member.fset is None:
            setattr(cls, name, property(checked(member.fget), doc=member.__doc__))
        elif isinstance(member, functools.cached_property):
            member.func = checked(member.func)
    if dataclasses.is_dataclass(cls) and "__init__" in vars(cls):
        cls.__init__ = checked(cls.__init__)


def checked(function):
    """The function, its shapes checked; itself when its signature has none."""
    speaks = any(SHAPED.search(str(hint)) for hint in getattr(function, "__annotations__", {}).values())
    return jaxtyped(function, typechecker=_shapes_only) if speaks else function


def _shapes_only(signature):
    """Given the copy of a function's signature that jaxtyping makes."""
    signature.__annotations__ = {name: hint for name, hint in signature.__annotations__.items() if _has_shape(hint)}
    return beartype(signature)


def _has_shape(hint):
    return (inspect.isclass(hint) and issubclass(hint, AbstractArray)) or any(map(_has_shape, get_args(hint)))
