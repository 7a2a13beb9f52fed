"""One-step features for real tables, with scikit-learn's interface: `OneStepFeatures`, `OneStepRegressor`, `OneStepClassifier`."""

from __future__ import annotations

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise ImportError("the estimators need scikit-learn: pip install 'onestride[estimator]'") from error

from onestride.estimator._explain import Explanation as Explanation
from onestride.estimator._models import OneStepClassifier as OneStepClassifier
from onestride.estimator._models import OneStepFeatures as OneStepFeatures
from onestride.estimator._models import OneStepRegressor as OneStepRegressor

__all__ = ["Explanation", "OneStepClassifier", "OneStepFeatures", "OneStepRegressor"]
