"""What does a two-layer network learn in its first gradient step, and how much does that help?

`predict` says what theory expects, `simulate` measures it, `compare` says whether they agree; one `Problem` feeds all.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onestride import conventions as conventions
    from onestride import estimator as estimator
    from onestride import plot as plot
    from onestride.comparison import compare as compare
    from onestride.diagnosis import diagnose as diagnose
    from onestride.estimator import OneStepClassifier as OneStepClassifier
    from onestride.estimator import OneStepFeatures as OneStepFeatures
    from onestride.estimator import OneStepRegressor as OneStepRegressor
    from onestride.functions import InputError as InputError
    from onestride.functions import activation as activation
    from onestride.inputs import Covariance as Covariance
    from onestride.learning_curves import scaling as scaling
    from onestride.own_data import from_data as from_data
    from onestride.problem import Problem as Problem
    from onestride.problem import Step as Step
    from onestride.result import TheoryError as TheoryError
    from onestride.simulation.cost import plan as plan
    from onestride.simulation.density import measure_density as measure_density
    from onestride.simulation.learned import measure_learned as measure_learned
    from onestride.simulation.run import simulate as simulate
    from onestride.simulation.run import simulate_grid as simulate_grid
    from onestride.simulation.spectrum import measure_spectrum as measure_spectrum
    from onestride.store import Store as Store
    from onestride.sweeps.drive import sweep as sweep
    from onestride.teachers import register as register
    from onestride.theory.baselines import baselines as baselines
    from onestride.theory.giant_step import giant_step as giant_step
    from onestride.theory.learned import learned as learned
    from onestride.theory.optimal import optimal_ridge as optimal_ridge
    from onestride.theory.optimum import optimum as optimum
    from onestride.theory.predict import predict as predict
    from onestride.theory.predict import predict_grid as predict_grid
    from onestride.theory.spectrum import spectrum as spectrum

__version__ = "0.2.0"

# Modules and their public names, imported on first use so that `onestride --help` is instant.
_NAMES = {
    "comparison": "compare",
    "conventions": "conventions",
    "diagnosis": "diagnose",
    "estimator": "estimator OneStepFeatures OneStepRegressor OneStepClassifier",
    "functions": "InputError activation",
    "inputs": "Covariance",
    "own_data": "from_data",
    "plot": "plot",
    "teachers": "register",
    "learning_curves": "scaling",
    "problem": "Problem Step",
    "result": "TheoryError",
    "simulation.cost": "plan",
    "simulation.density": "measure_density",
    "simulation.learned": "measure_learned",
    "simulation.run": "simulate simulate_grid",
    "simulation.spectrum": "measure_spectrum",
    "store": "Store",
    "sweeps.drive": "sweep",
    "theory.baselines": "baselines",
    "theory.giant_step": "giant_step",
    "theory.learned": "learned",
    "theory.optimal": "optimal_ridge",
    "theory.optimum": "optimum",
    "theory.predict": "predict predict_grid",
    "theory.spectrum": "spectrum",
}
_HOME = {name: home for home, names in _NAMES.items() for name in names.split()}
# Without scikit-learn the estimators are not there, and `from onestride import *` and `dir` do not promise them.
_MISSING = () if find_spec("sklearn") else tuple(name for name, home in _HOME.items() if home == "estimator")
__all__ = [*(name for name in _HOME if name not in _MISSING), "__version__"]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'onestride' has no attribute {name!r}")
    try:
        module = import_module(f"onestride.{_HOME[name]}")
    except ImportError as error:
        asked_by_import = sys._getframe(1).f_code.co_name == "_handle_fromlist"  # an import would hide our sentence
        if _HOME[name] != "estimator" or asked_by_import:
            raise
        raise AttributeError(str(error)) from error
    return module if name in ("conventions", "estimator", "plot") else getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
