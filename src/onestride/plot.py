"""Figures of one's own from the same parts as every figure here: series in panels, drawn by one function.

A result draws itself, `result.plot()`; this is for what no result has. `drawing` has the parts and all that knows matplotlib.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from onestride.drawing import COLOURS as COLOURS
from onestride.drawing import DASHES as DASHES
from onestride.drawing import MARKERS as MARKERS
from onestride.drawing import STYLE as STYLE
from onestride.drawing import Map as Map
from onestride.drawing import Panel as Panel
from onestride.drawing import Series as Series
from onestride.drawing import draw as draw
from onestride.drawing import save as save
from onestride.drawing import to_csv as to_csv
from onestride.drawing import to_svg as to_svg
from onestride.result import theory_series as theory_series

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from onestride.problem import Problem
    from onestride.theory.atlas import Plane


def atlas(problem: Problem, over: Plane = "phi-psi", x: ArrayLike | None = None, y: ArrayLike | None = None) -> Figure:
    """Maps of the best test error and of the best step over (φ, ψ) or (n, noise); `theory.atlas` has the numbers.

    Drawn in seconds: on the few nodes of a map, errors to about 2 %. `one.optimum` answers for one point.
    """
    from onestride.theory.atlas import atlas as compute

    return draw(compute(problem, over, x, y).panels())
