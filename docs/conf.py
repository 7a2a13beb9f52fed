"""Sphinx: MyST pages, the furo theme, a gallery made by running scripts, formulas as MathML; nothing from the network."""

import os
import sys
from pathlib import Path

from onestride import __version__

sys.path.insert(0, str(Path(__file__).parent / "_ext"))
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # small matrices: more threads only wait for each other

project = "onestride"
author = "The onestride developers"
project_copyright = author
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "docstrings",
    "offline",
]
exclude_patterns = ["_build", "gallery"]
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r"(?!onestride\.).*")]  # only our own names can be linked: there is no network
nitpick_ignore = [
    ("py:class", f"onestride.{name}")
    for name in (
        "experiments.outcome.T",
        "simulation.network.T",
        "simulation.features.T",
        "estimator._explain.Facts",
        "_backend.devices.Backend",
        "_backend.arrays.DeviceArray",
    )
]
default_role = "code"

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["config.cache"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_type_aliases = {name: name for name in ("Array", "ArrayLike", "ScalarMap")}
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
napoleon_google_docstring = False

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "filename_pattern": "/plot_",
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": ("figures.scrape",),
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
}

html_theme = "furo"
html_title = f"onestride {version}"
html_static_path = ["_static"]
html_css_files = ["onestride.css"]
html_js_files = ["copy.js"]
html_show_sphinx = False
html_copy_source = False
html_math_renderer = "mathml"
