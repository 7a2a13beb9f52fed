"""The scikit-learn shells: validation, labels and attributes around `_network.fit_network`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from onestride._backend import choose, require_memory
from onestride._backend.threads import by_rows, cores
from onestride._errors import InputError
from onestride._numerics import Array
from onestride.estimator._categories import read_categories
from onestride.estimator._checks import as_numpy, by_row, finite, read_recipe, read_weights
from onestride.estimator._explain import Explanation, explain_fit, measurable
from onestride.estimator._judge import EFFORTS
from onestride.estimator._large import LEFT_OUT_ROWS, PART_ROWS, tiled_outputs
from onestride.estimator._layer import Recipe
from onestride.estimator._logistic import fit_logistic
from onestride.estimator._network import MOST_NUMBERS, FittedNetwork, Progress, Sample, fit_network
from onestride.estimator._table import ENOUGH_FOR_A_RANGE, MOST_INPUTS, location_and_scale, magnitude, read_table
from onestride.estimator._targets import TargetRange


class _OneStep(BaseEstimator):
    """Parameters, checks and the fit that the three estimators share."""

    def __init__(
        self,
        width: int = 512,
        *,
        step_size: float | str = "auto",
        steps: int = 1,
        gradient: str = "auto",
        first_layer: str = "auto",
        activation: str | Sequence[float] = "erf",
        input_scale: float | str = "auto",
        alphas: ArrayLike | None = None,
        skip: bool = True,
        whiten: bool = False,
        robust: bool = True,
        categorical_features: Any = "from_dtype",
        effort: str = "default",
        device: str = "cpu",
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.width = width
        self.step_size = step_size
        self.steps = steps
        self.gradient = gradient
        self.first_layer = first_layer
        self.activation = activation
        self.input_scale = input_scale
        self.alphas = alphas
        self.skip = skip
        self.whiten = whiten
        self.robust = robust
        self.categorical_features = categorical_features
        self.effort = effort
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def _fit_table(self, X: Array, Y: Array, sample_weight: ArrayLike | None) -> FittedNetwork:
        """Merge equal rows, standardise, fit. Outlying targets are pulled in where they are numbers and not codes of classes."""
        keeps = isinstance(self, ClassifierMixin)
        recipe = replace(read_recipe(self), pull=bool(self.robust) and not keeps, keep_rows=keeps)
        ranks = recipe.ranks and (recipe.first_layer != "auto" or (bool(Y.any()) and X.shape[1] <= MOST_INPUTS // 2))
        weights = read_weights(sample_weight, X)
        kept, unit = weights > 0, magnitude(Y)
        if not kept.all():
            X, Y, weights = X[kept], Y[kept], weights[kept]
        self._seed = seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        self._missing, self._inputs, Z, Y, weights = read_table(
            X, np.ldexp(Y, -unit), weights, self._categories, bool(self.whiten), bool(self.robust), ranks, seed
        )
        self._require_memory(Z, recipe)
        weights, penalties, alphas, self._unit = by_row(weights, recipe.alphas, self.alphas is None)
        mean, scale = location_and_scale(Y, weights)
        Y = (Y - mean) / scale
        self._target_mean = np.ldexp(mean, unit)
        self._target_scale = np.where(np.isfinite(scale), np.ldexp(scale, unit), 1.0)
        recipe = replace(recipe, ranks=ranks, alphas=alphas)
        generator, progress = np.random.default_rng(seed), Progress(bool(self.verbose))
        fit = fit_network(Z, Y, weights, recipe, generator, EFFORTS[self.effort], progress)
        self._layer, self._readout, self.first_layer_ = fit.trained.layer, fit.trained.readout, fit.base.name
        if not fit.base.ranked:
            self._inputs = replace(self._inputs, ranks=None)
        Y, holds = fit.targets, recipe.pull and len(fit.targets) >= ENOUGH_FOR_A_RANGE
        self._range = TargetRange(Y.min(axis=0), Y.max(axis=0)) if holds else None
        self._measurable = measurable(fit, len(Y), recipe)
        self.step_size_, self.input_scale_ = fit.step, fit.scale
        self.alpha_ = float(penalties[np.searchsorted(recipe.alphas, fit.trained.alpha)])
        self.gradient_, self.steps_ = (fit.move.kind, fit.move.repeats) if fit.step else ("none", 0)
        self.held_out_, self.n_outlying_targets_ = fit.held_out, int(fit.outlying.sum())
        owners = self._categories.owners(X.shape[1])
        direction = self._inputs.to_columns(fit.direction)[: owners.size]
        if self._categories.levels:
            direction = np.sqrt(np.bincount(owners, np.square(direction)))
        self.direction_ = direction / (np.linalg.norm(direction) or 1.0)
        influence = np.sum(by_rows(partial(self._influence, fit.sample), len(fit.sample.Z), most=PART_ROWS), axis=0)
        influence = np.bincount(owners, self._missing.folded(influence))
        self.feature_importances_ = influence / (influence.sum() or 1.0)
        return fit

    def _influence(self, sample: Sample, rows: slice) -> Array:
        """Of every standardised column: the squared slopes of the prediction at some rows, summed."""
        gradients = self._layer.input_gradients(sample.Z[rows], self._readout.coefficients)
        return np.sum([sample.w[rows] @ np.square(self._inputs.to_columns(g)) for g in gradients], axis=0)

    def _require_memory(self, Z: Any, recipe: Recipe) -> None:
        """A few n × p arrays of doubles for small tables; tiles, some rows and a few p × p arrays for large ones."""
        n, p = len(Z), recipe.width + Z.shape[1]
        rows = min(n, EFFORTS[self.effort].rows)
        judged = 5.0 + 2.0 * min(cores() - 1, 4)  # arrays; five candidates may be judged side by side
        needed = judged * rows * min(p, EFFORTS[self.effort].width + Z.shape[1]) + 3.0 * min(n, p) ** 2
        shown = min(n, max(LEFT_OUT_ROWS, MOST_NUMBERS // p)) if recipe.keep_rows else LEFT_OUT_ROWS
        needed += 5.0 * n * p if n <= LEFT_OUT_ROWS or n < p else 4.0 * shown * p
        require_memory(8.0 * needed, f"width {recipe.width} on {n} distinct rows")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _validated(self, X: Any, *y: Any, **options: Any) -> Any:
        """X, or X and y, as scikit-learn checks them; categories as numbers."""
        X = as_numpy(X)
        if options.get("reset", True):
            self._categories = read_categories(X, self.categorical_features)
        X, kinds = self._categories.coded(X), [np.float64, np.float32]
        return validate_data(self, X, *map(as_numpy, y), dtype=kinds, ensure_all_finite="allow-nan", **options)

    def _table(self, X: Any, y: Any) -> tuple[Array, Array]:
        """X and numeric targets, n × outputs, of a regression."""
        if issparse(y):
            raise InputError("y must be a dense array of numbers, got a sparse matrix; use y.toarray()")
        try:
            X, y = self._validated(X, y, multi_output=True, y_numeric=True, ensure_min_samples=2)
            if y.dtype.kind not in "biuf":
                raise InputError(f"y must hold numbers, got {y.flat[0]!r}; a classifier takes labels")
            with np.errstate(over="raise"):
                targets = y.reshape(len(y), -1).astype(np.float64)
            if not np.isfinite(targets).all():  # scikit-learn lets them pass among Python's numbers
                raise OverflowError
        except (OverflowError, FloatingPointError):
            raise InputError("y must hold numbers that fit into float64, up to 1.8e308") from None
        self._single = y.ndim == 1
        return X, targets

    def _rows(self, X: Any) -> Array:
        check_is_fitted(self)
        X = self._missing.filled(self._categories.expanded(np.asarray(self._validated(X, reset=False))))
        names = getattr(self, "feature_names_in_", None)
        self._inputs.warn_of_far_rows(X, None if names is None else np.array(self._categories.names(names), object))
        return self._inputs.standardised(X)

    def _outputs(self, X: Any) -> Array:
        Z = self._rows(X)
        with np.errstate(over="ignore", invalid="ignore"):
            outputs = tiled_outputs(self._layer, Z, self._readout, choose(self.device))
            outputs = (
                outputs if self._range is None else self._range.held(outputs, self._target_mean, self._target_scale)
            )
            outputs = outputs * self._target_scale.astype(Z.dtype) + self._target_mean.astype(Z.dtype)
        return finite(outputs, "prediction")

    def explain(self) -> Explanation:
        """What was measured, what theory predicts for a problem with these numbers, and why a step helps or does not."""
        check_is_fitted(self)
        return explain_fit(self._measurable.facts)


class OneStepRegressor(RegressorMixin, _OneStep):
    """Ridge regression on the features of a two-layer network after one gradient step.

    f(x) = c₀ + cᵀσ(Wz + b) + lᵀz on standardised inputs z. W₀ is spherical; one gradient step of the ridge-fitted network
    on a linear map of its inputs gives W; ridge regression on the same rows gives c, l, c₀. The penalty and the input
    scale are chosen by exact leave-one-out, the step size on rows that built neither features nor readout, with no step
    among the choices.

    Parameters
    ----------
    width
        Neurons N.
    step_size
        ρ, the length of the step relative to the first layer; 0 gives random features. ``"auto"``: 0, 1 or 3 (10 for maps), by
        held-out rows; a step is taken when it gains more than one standard error.
    steps
        Number of gradient steps, all of that size, with the readout fitted again before each; or of maps.
    gradient
        ``"shared"``: one linear map R of the inputs, common to all neurons, takes the step. ``"neurons"``: every neuron
        takes its own, the literal gradient with respect to W. ``"full"``, ``"diagonal"``: maps learned from the quadratic part
        of the residual and its square, then from outer products of gradients, or their diagonals. ``"auto"``: a shared step, or
        two or four maps of either kind, by held-out rows.
    first_layer
        ``"dense"``: W₀ on the standardised columns. ``"ranks"``: on these and their normal scores. ``"sparse"``: neurons that see one, two
        or three of both, each standing at a training row. ``"landmarks"``: a Gaussian kernel at training rows, on columns and scores, with the moves of
        the layer on these. ``"auto"``: by held-out rows where ``step_size="auto"``, landmarks then on what suits them, else dense.
    activation
        A name from `onestride functions`, or a list of Hermite coefficients.
    input_scale
        Length of the rows of W₀, in units of 1/standard deviation of an input. ``"auto"``: 1/4, 1/2, 1, 2 or 4.
    alphas
        Penalties to choose from; 31 from 10⁻⁹ to 10⁶ times the mean weight of a distinct row, to a power of two, when None.
    skip
        Let the readout see the inputs too, as a linear skip connection.
    whiten
        Make the inputs uncorrelated instead of only standardising each.
    robust
        Survive outliers: columns are scaled by quantiles and clipped smoothly, targets that left-out predictions miss by
        more than eight robust standard deviations are pulled in, predictions end a tenth of the targets' range beyond it.
    categorical_features
        ``"from_dtype"``: the columns of a data frame with a categorical dtype; or names, numbers or a mask of columns, or None. Each level is a
        column of 0 and 1 (the 255 most frequent); missing is a level of its own, and so counts what training rows did not have.
    effort
        ``"high"`` chooses with four times the rows, twice the neurons, wider networks for maps and more maps: several times the cost.
    device
        Where the regression on a table of more rows than choices are made with, and its predictions, are computed: ``"cpu"``, or ``"cuda"``,
        ``"cuda:1"``, ``"cupy"``.
    verbose
        Tell on stderr what a fit is doing once it has taken ten seconds.
    random_state
        Seed of W₀, b and the held-out rows.

    Attributes
    ----------
    step_size_, alpha_, input_scale_, gradient_, steps_, first_layer_
        What was chosen.
    held_out_
        Errors by step size on held-out rows, with paired gains and standard errors.
    n_outlying_targets_
        How many targets were pulled in. Errors are measured on the targets after that.
    direction_
        Unit vector of standardised inputs along which the step moves the first layer most; lengths alone where there are categories.
    feature_importances_
        Mean squared slope of the prediction in each standardised input, as shares.
    loo_error_
        Leave-one-out mean squared error at `alpha_`; optimistic when a step was taken. inf (0) where the square of a
        huge (tiny) target is no longer a number; predictions are right all the same.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 8))
    >>> model = one.OneStepRegressor(width=50, random_state=0).fit(X, X[:, 0] ** 2 + X[:, 0])
    >>> model.predict(X[:2]).shape
    (2,)
    """

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit; X n × d, y n or n × outputs. A weight counts as that many copies of the row."""
        fit = self._fit_table(*self._table(X, y), sample_weight)
        with np.errstate(over="ignore"):
            self.loo_error_ = float(fit.trained.left_out_error * np.mean(self._target_scale**2))
        return self

    def predict(self, X: Any) -> Array:
        """Predicted targets, in the precision of X."""
        outputs = self._outputs(X)
        return outputs[:, 0] if self._single else outputs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class OneStepClassifier(ClassifierMixin, _OneStep):
    """Multinomial logistic regression on the features of a two-layer network after one gradient step.

    The features are learned by least squares with targets ±1, one output per class (one in all for two classes), as in
    `OneStepRegressor`, whose parameters and attributes it shares. The readout is then fitted again by logistic regression, with
    its penalty chosen on held-out rows.

    Attributes
    ----------
    classes_
        The labels.
    logistic_alpha_
        Penalty of the logistic readout.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 8))
    >>> model = one.OneStepClassifier(width=50, random_state=0).fit(X, X[:, 0] > 0)
    >>> model.predict(X[:2]).shape
    (2,)
    """

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit; X n × d, y n labels of any kind. A weight counts as that many copies of the row."""
        X, y = self._validated(X, y, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if self.classes_.size < 2:
            raise InputError(f"y must have 2 classes or more, got 1 class: {self.classes_.tolist()}")
        onehot = np.where(codes[:, None] == np.arange(self.classes_.size), 1.0, -1.0)
        targets = onehot[:, 1:] if self.classes_.size == 2 else onehot
        fit = self._fit_table(X, targets, sample_weight)
        Y = fit.targets if fit.shown is None else fit.targets[fit.shown]
        # merged rows may hold several labels: their share of each class, from the mean of ±1 targets
        targets = (Y * self._target_scale + self._target_mean + 1) / 2
        shares = np.hstack([1 - targets, targets]) if self.classes_.size == 2 else targets
        generator = np.random.default_rng(self._seed + 1)
        self._logistic, alpha = fit_logistic(fit.trained.path, np.clip(shares, 0.0, 1.0), generator)
        self.logistic_alpha_ = float(np.ldexp(alpha, self._unit))
        return self

    def _logits(self, X: Any) -> Array:
        """One column per class."""
        Z = self._rows(X)
        return finite(tiled_outputs(self._layer, Z, self._logistic, choose(self.device)), "prediction")

    def decision_function(self, X: Any) -> Array:
        """Logits per class, n × classes; for two classes n, the log-odds of the second."""
        logits = self._logits(X)
        return logits[:, 1] - logits[:, 0] if self.classes_.size == 2 else logits

    def predict(self, X: Any) -> Array:
        """The most probable class."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(1)]

    def predict_proba(self, X: Any) -> Array:
        """Probabilities, n × classes."""
        return softmax(self._logits(X), axis=1)


class OneStepFeatures(TransformerMixin, _OneStep):
    """The features themselves: σ(Wz + b) after one gradient step, followed by the standardised inputs when `skip`.

    Supervised: `fit` needs y (numbers, or several columns of them) unless ``step_size=0``. Parameters and attributes as in
    `OneStepRegressor`.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 8))
    >>> one.OneStepFeatures(width=50, random_state=0).fit_transform(X, X[:, 0]).shape
    (100, 58)
    """

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the first layer; X n × d, y n or n × outputs."""
        if y is None:
            if read_recipe(self).step != 0:
                raise InputError(
                    "requires y to be passed, but the target y is None; a step needs a target, only step_size=0 does not"
                )
            X = self._validated(X, ensure_min_samples=2)
            targets = np.zeros((len(X), 1))
        else:
            X, targets = self._table(X, y)
        self._fit_table(X, targets, sample_weight)
        return self

    def transform(self, X: Any) -> Array:
        """Features, n × (width + d), in the precision of X."""
        Z = self._rows(X)
        with np.errstate(over="ignore", invalid="ignore"):
            features = self._layer.design(Z)
        return finite(features, "feature")

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """onestep0 … for the neurons, then the names of the inputs."""
        check_is_fitted(self)
        names = np.array(self._categories.names(np.asarray(_check_feature_names_in(self, input_features))), object)
        neurons = [f"onestep{j}" for j in range(self._layer.width)]
        inputs = [*names, *(f"missing_{name}" for name in names[self._missing.told])] if self._layer.skip else []
        inputs += [f"rank_{name}" for name in inputs] if self._inputs.ranks is not None else []
        return np.array([*neurons, *inputs], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = not (isinstance(self.step_size, Real) and self.step_size == 0)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
