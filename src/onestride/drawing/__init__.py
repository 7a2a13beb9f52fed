"""Figures as data first: a figure is a list of panels, a panel a list of series; one function draws any of them.

Theory is drawn as lines, simulation as points with error bars, limits as dotted lines; theory that is marked as
inaccurate as a thin dashed line with hollow points. A theory and the simulation it is compared with share a colour.
Panels that show one quantity share its axis, and the figure has one legend. The numbers drawn, seed by seed, are a table
(`to_csv`) from which the same figure can be drawn again (`onestride.drawing.files.read`).
"""

from onestride.drawing.figure import axes_of, draw
from onestride.drawing.files import save, to_csv, to_svg
from onestride.drawing.palette import COLOURS, DASHES, MARKERS, STYLE
from onestride.drawing.panels import Map, Panel, Series

__all__ = [
    "COLOURS",
    "DASHES",
    "MARKERS",
    "STYLE",
    "Map",
    "Panel",
    "Series",
    "axes_of",
    "draw",
    "save",
    "to_csv",
    "to_svg",
]
