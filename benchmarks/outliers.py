"""Do the estimators survive outliers? Thirty generated tables, and a folder of real ones, as they are or with spikes put in.

    python benchmarks/outliers.py [--folder TABLES] [--spikes] [--width 512] [--rows 600] [--out outliers.csv]

Ten kinds of tables, three seeds each: heavy tails, spikes of 10 to 10⁴ standard deviations in training rows, in test rows or in
both, nearly equal and nearly collinear columns, targets with outliers, sensors with a few extreme rows, sparse columns. The
peers see standardised columns, as is usual: random Fourier features and Nystroem of the same width with their bandwidth and
penalty by leave-one-out, and our own features without a step. Error: mean squared error on test rows over the variance of the
target there. Ends with 1 when the default is above 1.2 × the better peer on any generated table.
"""

from __future__ import annotations

import argparse
import csv
import sys
import warnings
from pathlib import Path

import estimator_methods as methods
import numpy as np

from onestride.estimator import OneStepRegressor

ALLOWED = 1.2
SEEDS = (0, 1, 2)


def latent(rng, n: int, d: int):
    """Normal inputs and a target with a linear, a quadratic and a smooth part in four of them, noise of variance 0.1."""
    g = rng.standard_normal((n, d))
    clean = g[:, 0] + 0.7 * g[:, 1] * g[:, 2] + np.sin(1.5 * g[:, 3])
    return g, (clean + np.sqrt(0.1) * rng.standard_normal(n))


def spikes(rng, X, rows, share: float = 0.01):
    """A share of the entries of `rows`, in a third of the columns, becomes ±10 to ±10⁴ standard deviations."""
    X = X.copy()
    columns = rng.choice(X.shape[1], max(X.shape[1] // 3, 1), replace=False)
    hit = rng.random((len(rows), len(columns))) < share
    hit[rng.integers(len(rows), size=len(columns)), np.arange(len(columns))] = True
    size = 10 ** rng.uniform(1, 4, hit.shape) * rng.choice([-1, 1], hit.shape) * X[:, columns].std(0)
    X[np.ix_(rows, columns)] = np.where(hit, size, X[np.ix_(rows, columns)])
    return X


def generated(kind: str, seed: int, n: int):
    """X, y of n training rows and as many test rows."""
    rng = np.random.default_rng(10_000 + seed + 100 * KINDS.index(kind))
    train, test = np.arange(n), np.arange(n, 2 * n)
    g, y = latent(rng, 2 * n, 8)
    if kind == "heavy tails":
        X = np.sinh(2 * g)
    elif kind == "lognormal":
        X = np.exp(2 * g)
    elif kind == "spikes in train":
        X = spikes(rng, g, train)
    elif kind == "spikes in test":
        X = spikes(rng, g, test)
    elif kind == "spikes in both":
        X = spikes(rng, spikes(rng, g, train), test)
    elif kind == "nearly equal":
        X = spikes(rng, np.hstack([g, g + 1e-6 * rng.standard_normal(g.shape)]), test)
    elif kind == "nearly collinear":
        X = g @ rng.standard_normal((8, 40)) + 1e-3 * rng.standard_normal((2 * n, 40))
        X = spikes(rng, X, test, 0.002)
    elif kind == "target outliers":
        X, y = g, y.copy()
        hit = rng.choice(train, n // 50, replace=False)
        y[hit] += 30 * y.std() * rng.choice([-1, 1], hit.size)
    elif kind == "sensors":  # gains that differ, and a few rows where every sensor is far out
        gain = np.exp(0.3 * rng.standard_normal((2 * n, 1)))
        X = (g @ rng.standard_normal((8, 64)) + 3) * gain + 0.05 * rng.standard_normal((2 * n, 64))
        far = rng.choice(2 * n, n // 50, replace=False)
        X[far] *= 10 ** rng.uniform(1, 3, (far.size, 1))
    else:  # sparse: mostly zero, the rest with a heavy tail
        X = np.where(g > 0.8, np.exp(3 * (g - 0.8)), 0.0)
        y = X.clip(0, 3) @ np.linspace(1, 0.2, 8) + 0.3 * rng.standard_normal(2 * n)
    return X[train], y[train], X[test], y[test]


KINDS = (
    "heavy tails", "lognormal", "spikes in train", "spikes in test", "spikes in both", "nearly equal", "nearly collinear",
    "target outliers", "sensors", "sparse",
)  # fmt: skip


def from_folder(path: Path, seed: int, n: int, spiked: bool):
    """A real table, at most n training and n test rows, with spikes in both when asked for."""
    rng = np.random.default_rng(seed)
    table = np.load(path)
    X, y = table["X"], table["y"].astype(float)
    keep = rng.permutation(len(y))[: min(2 * n, len(y))]
    X, y, half = X[keep], y[keep], len(keep) // 2
    if spiked:
        X = spikes(rng, spikes(rng, X, np.arange(half), 0.002), np.arange(half, len(y)), 0.002)
    return X[:half], y[:half], X[half:], y[half:]


def fourier(X, Y, seed: int, width: int):
    """Random Fourier features cos(γZw + b), the length γ by leave-one-out."""
    rng = np.random.default_rng(seed)
    W, b = rng.standard_normal((X.shape[1], width)) / np.sqrt(X.shape[1]), rng.uniform(0, 2 * np.pi, width)

    def scaled(scale):
        def features(Z):
            return np.cos(scale * Z @ W + b)

        return features(X), features, {}

    _, predict, _, _ = methods.leave_one_out_ridge((scaled(s) for s in (0.1, 0.3, 1.0, 3.0)), Y)
    return predict


def errors(X, y, X_test, y_test, seed: int, width: int, **parameters) -> dict[str, float]:
    """Error of the default, of no step, and of the peers."""
    mean, std = X.mean(0), X.std(0)
    std[std == 0] = np.inf
    A, B, Y = (X - mean) / std, (X_test - mean) / std, ((y - y.mean()) / y.std())[:, None]
    methods.WIDTH = width
    peers = {
        "random Fourier features": fourier(A, Y, seed, width),
        "Nystroem": methods.nystroem(False)(A, Y, y, seed, False)[0],
    }
    predicted = {name: predict(B)[:, 0] * y.std() + y.mean() for name, predict in peers.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for name, options in (("random features", {"step_size": 0}), ("one step", {})):
            model = OneStepRegressor(width, random_state=seed, **options, **parameters).fit(X, y)
            predicted[name] = model.predict(X_test)
    return {name: float(np.mean((p - y_test) ** 2) / y_test.var()) for name, p in predicted.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder")
    parser.add_argument("--spikes", action="store_true")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--rows", type=int, default=600)
    parser.add_argument("--seeds", type=int, nargs="*", default=SEEDS)
    parser.add_argument("--out")
    arguments = parser.parse_args()
    cells = [(k, s, generated(k, s, arguments.rows)) for k in KINDS for s in arguments.seeds]
    if arguments.folder:
        paths = sorted(Path(arguments.folder).glob("*.npz"))
        cells = [
            (p.stem, s, from_folder(p, s, arguments.rows, arguments.spikes)) for p in paths for s in arguments.seeds
        ]
    worst, rows = 0.0, []
    for name, seed, data in cells:
        found = errors(*data, seed, arguments.width)
        ratio = found["one step"] / min(value for key, value in found.items() if key != "one step")
        worst = max(worst, ratio)
        rows.append({"table": name, "seed": seed, **{k: f"{v:.4g}" for k, v in found.items()}, "ratio": f"{ratio:.3f}"})
        print(f"{name} {seed}: " + ", ".join(f"{k} {v:.4g}" for k, v in found.items()) + f"; {ratio:.2f}", flush=True)
    print(f"largest ratio to the better peer: {worst:.3f}")
    if arguments.out:
        with open(arguments.out, "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return int(worst > ALLOWED)


if __name__ == "__main__":
    sys.exit(main())
