"""The methods that `estimator_tables` compares: ours, random features, landmarks, other networks, trees, at equal width or published defaults.

Each takes standardised training inputs, targets (rows × outputs; ±1 per class), labels, a seed and whether it is a classification, and returns a
function that predicts targets, with `probabilities` where it has some, and a note of what it chose.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from onestride.estimator import OneStepClassifier, OneStepRegressor
from onestride.estimator._layer import Recipe, draw_layer
from onestride.estimator._network import SCALES
from onestride.estimator._ridge import best_penalty, decompose

WIDTH = 512
ALPHAS = np.logspace(-9, 6, 31)


def leave_one_out_ridge(candidates, Y):
    """The candidate (features of training rows, function for new rows, note) with the smallest leave-one-out error."""
    best, w = None, np.ones(len(Y))
    for features, new, note in candidates:
        path = decompose(features, Y, w)
        alpha, error = best_penalty(path, ALPHAS)
        if best is None or error < best[0]:
            c, c0 = path.readout(alpha)
            best = error, (lambda Z, c=c, c0=c0, new=new: new(Z) @ c + c0), {**note, "alpha": alpha}, c
    return best


def linear(X, Y, y, seed, classes):
    _, predict, note, _ = leave_one_out_ridge([(X, lambda Z: Z, {})], Y)
    return predict, note


def _with_probabilities(predict, model):
    predict.probabilities = getattr(model, "predict_proba", None)
    return predict


def _note(model) -> dict:
    note = {"step": model.step_size_, "scale": model.input_scale_, "alpha": model.alpha_}
    return note | {"kind": f"{model.first_layer_} {model.gradient_} {model.steps_}"}


def one_step(**parameters):
    def method(X, Y, y, seed, classes):
        if classes:
            model = OneStepClassifier(WIDTH, random_state=seed, **parameters).fit(X, y)
            note = _note(model)
            return _with_probabilities(lambda Z: model.decision_function(Z).reshape(len(Z), -1), model), note
        model = OneStepRegressor(WIDTH, random_state=seed, **parameters).fit(X, y)
        mean, std = y.mean(), y.std()
        note = _note(model)
        return lambda Z: (model.predict(Z)[:, None] - mean) / std, note

    return method


def nystroem(skip: bool):
    def method(X, Y, y, seed, classes):
        rows = np.random.default_rng(seed).choice(len(X), min(WIDTH, len(X)), replace=False)
        L, d = X[rows], X.shape[1]

        def squared(Z):
            return np.maximum((Z * Z).sum(1)[:, None] + (L * L).sum(1) - 2 * Z @ L.T, 0)

        def candidates():
            D, DL = squared(X), squared(L)
            for multiple in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0):
                gamma = multiple / (2 * d)
                values, vectors = eigh(np.exp(-gamma * DL), driver="evd")
                root = vectors / np.sqrt(np.maximum(values, 1e-12))

                def features(Z, DZ=None, root=root, gamma=gamma):
                    F = np.exp(-gamma * (squared(Z) if DZ is None else DZ)) @ root
                    return np.hstack([F, Z]) if skip else F

                yield features(X, D), features, {"gamma": multiple}

        _, predict, note, _ = leave_one_out_ridge(candidates(), Y)
        return predict, note

    return method


def agop(X, Y, y, seed, classes):
    """Random features, then W₀M^½ with M the average outer product of the fit's gradients, then ridge again."""
    recipe = Recipe(WIDTH, "erf", True, "shared", 1, None, 0.0, ALPHAS)
    unit = draw_layer(np.ones(X.shape[1], bool), recipe, np.random.default_rng(seed), X.dtype)

    def scaled(scale):
        layer = type(unit)(unit.W * scale, unit.b, "erf", True)
        return layer.design(X), layer.design, {"scale": scale, "layer": layer}

    _, _, note, c = leave_one_out_ridge((scaled(s) for s in SCALES), Y)
    layer = note["layer"]
    values, vectors = eigh(sum(g.T @ g for g in layer.input_gradients(X, c)))
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    W = layer.W @ root
    layer = type(unit)(W * (np.linalg.norm(layer.W) / np.linalg.norm(W)), unit.b, "erf", True)
    _, predict, after, _ = leave_one_out_ridge([(layer.design(X), layer.design, {})], Y)
    return predict, {"scale": note["scale"], "alpha": after["alpha"]}


def swim(X, Y, y, seed, classes):
    """Sampled networks: tanh neurons across pairs of rows, drawn by the slope of the target between them."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, len(X), (2, 20 * WIDTH))
    gap = np.linalg.norm(X[b] - X[a], axis=1)
    a, b, gap = a[gap > 1e-9], b[gap > 1e-9], gap[gap > 1e-9]
    slope = np.abs(Y[b] - Y[a]).max(1) / gap
    chance = slope / slope.sum() if slope.sum() > 0 else None
    pick = rng.choice(len(gap), WIDTH, replace=chance is not None and (chance > 0).sum() < WIDTH, p=chance)
    s1, s2 = np.log(3.0), np.log(3.0) / 2  # tanh is -1/2 at one row of the pair, 1/2 at the other
    W = s1 * (X[b[pick]] - X[a[pick]]) / gap[pick][:, None] ** 2
    shift = -(W * X[a[pick]]).sum(1) - s2

    def features(Z):
        return np.hstack([np.tanh(Z @ W.T + shift), Z])

    _, predict, note, _ = leave_one_out_ridge([(features(X), features, {})], Y)
    return predict, note


def feature_boosting(X, Y, y, seed, classes, layers: int = 6, rate: float = 0.5):
    """Random feature representation boosting (Zozoulenko, Cass and Gonon 2025), gradient version, written from the paper.

    Φ₀ = tanh random features of x; Φ_{t+1} = Φ_t + ηα A_t F_t with F_t tanh random features of (Φ_t, x), A_t the ridge regression of the
    functional gradient (y − ŷ_t)W_tᵀ on F_t, α by line search, and W_t the ridge readout of Φ_t. A fifth of the rows stops it.
    """

    held = np.random.default_rng(seed).permutation(len(X)) % 5 == 0
    errors = [np.mean((p - Y[held]) ** 2) for p in _boosted(X[~held], Y[~held], seed, layers, rate)(X[held])]
    best = int(np.argmin(errors))
    predict = _boosted(X, Y, seed, best, rate)
    return lambda Z: predict(Z)[-1], {"layers": best}


def _boosted(X, Y, seed: int, layers: int, rate: float):
    """Fit; returns a function that gives the predictions after every layer."""
    rng, ones = np.random.default_rng(seed), np.ones(len(X))
    drawn, readouts, steps = [], [], []

    def features(A, t):
        if t == len(drawn):
            drawn.append((rng.standard_normal((A.shape[1], WIDTH)) / np.sqrt(A.shape[1]), rng.standard_normal(WIDTH)))
        return np.tanh(A @ drawn[t][0] + drawn[t][1])

    P = features(X, 0)
    for t in range(layers + 1):
        path = decompose(np.hstack([P, X]), Y, ones)
        c, c0 = path.readout(best_penalty(path, ALPHAS)[0])
        readouts.append((c, c0))
        if t == layers:
            break
        residual, unit = Y - np.hstack([P, X]) @ c - c0, P.std() or 1.0
        F, gradient = features(np.hstack([P / unit, X]), t + 1), residual @ c[:WIDTH].T
        inner = decompose(F, gradient / (gradient.std() or 1.0), ones)
        A, a0 = inner.readout(best_penalty(inner.of(inner.targets[:, :8]), ALPHAS[::3])[0])
        change = (F @ A + a0) @ c[:WIDTH]
        size = rate * float(np.sum(residual * change) / max(np.sum(change**2), 1e-300))
        P = P + size * (F @ A + a0)
        steps.append((unit, size * A, size * a0))

    def predict(Z):
        Q, out = features(Z, 0), []
        for t, (c, c0) in enumerate(readouts):
            out.append(np.hstack([Q, Z]) @ c + c0)
            if t < len(steps):
                unit, A, a0 = steps[t]
                Q = Q + features(np.hstack([Q / unit, Z]), t + 1) @ A + a0
        return out

    return predict


def library(make):
    """A scikit-learn style model on labels or standardised targets."""

    def method(X, Y, y, seed, classes):
        model = make(classes, seed)
        if not classes:
            model.fit(X, Y[:, 0])
            return lambda Z: np.asarray(model.predict(Z)).reshape(len(Z), 1), {}
        labels, codes = np.unique(y, return_inverse=True)
        model.fit(X, codes)

        def predict(Z):
            found = np.asarray(model.predict(Z)).astype(int).reshape(len(Z), 1)
            onehot = np.where(found == np.arange(labels.size), 1.0, -1.0)
            return onehot[:, 1:] if labels.size == 2 else onehot

        return _with_probabilities(predict, model), {}

    return method


def boosting(classes, seed):
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    return (HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor)(random_state=seed)


def perceptron(classes, seed):
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    warnings.simplefilter("ignore", ConvergenceWarning)
    return (MLPClassifier if classes else MLPRegressor)(hidden_layer_sizes=(WIDTH,), random_state=seed)


def xgboost(classes, seed):
    import xgboost

    return (xgboost.XGBClassifier if classes else xgboost.XGBRegressor)(random_state=seed, n_jobs=1)


def catboost(classes, seed):
    import catboost

    kind = catboost.CatBoostClassifier if classes else catboost.CatBoostRegressor
    return kind(random_seed=seed, thread_count=1, verbose=False, allow_writing_files=False)


def tabkit(name: str):
    """RealMLP-TD or TabM-D of pytabkit at their published defaults, on the GPU where there is one."""

    def make(classes, seed):
        import logging
        import warnings

        import pytabkit
        import torch

        warnings.simplefilter("ignore")
        logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
        torch.set_num_threads(1)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return getattr(pytabkit, f"{name}_{'Classifier' if classes else 'Regressor'}")(device=device, random_state=seed)

    return make


def xrfm(classes, seed):
    import torch
    from xrfm import xRFM

    torch.manual_seed(seed)
    torch.set_num_threads(1)

    class Model:
        def fit(self, X, y):
            held = np.random.default_rng(seed).permutation(len(X)) % 5 == 0
            self.model = xRFM(device=torch.device("cpu"), tuning_metric="accuracy" if classes else "mse")
            X, y = np.asarray(X, np.float32), np.asarray(y, np.int64) if classes else np.asarray(y[:, None], np.float32)
            self.model.fit(X[~held], y[~held], X[held], y[held])

        def predict(self, X):
            return self.model.predict(np.asarray(X, np.float32))

    return Model()


METHODS = {
    "linear ridge": linear,
    "random features": one_step(step_size=0),
    "one step": one_step(),
    "one step, neurons": one_step(gradient="neurons"),
    "one step, high effort": one_step(effort="high"),
    "two steps": one_step(steps=2),
    "Nystroem": nystroem(False),
    "Nystroem + skip": nystroem(True),
    "AGOP": agop,
    "SWIM": swim,
    "random-feature boosting": feature_boosting,
    "boosting": library(boosting),
    "XGBoost": library(xgboost),
    "CatBoost": library(catboost),
    "RealMLP-TD": library(tabkit("RealMLP_TD")),
    "TabM-D": library(tabkit("TabM_D")),
    "MLP": library(perceptron),
    "xRFM": library(xrfm),
}
TREES = ("boosting", "XGBoost", "CatBoost")
OTHERS = (*TREES, "MLP", "xRFM", "RealMLP-TD", "TabM-D")  # methods without a width of 512
