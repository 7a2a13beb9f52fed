"""Forty problems and their digits: what a change of the house must leave as it is.

    python benchmarks/digits.py record digits     writes digits.json and the store digits/ that a sweep leaves
    python benchmarks/digits.py check digits      the largest relative difference of each kind; ends with 1 above 1e-9

Predictions by every method, three simulated seeds, learned shares and spectra of forty problems, rows of a sweep, fits of the
estimators; then the recorded store is opened again. About three minutes of one core; only public names are used.
"""

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import itertools
import json
import math
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

import onestride as one

ALLOWED = 1e-9
ERRORS = ("train_loss", "train_mse", "test_error")
METHODS = ("auto", "plateau", "finite-step")
SWEEP = {
    "problem": {"n": 120, "d": 60, "N": 180, "teacher": [0, 1, 0.7071], "noise": 0.5, "seeds": 2},
    "axes": {"exponent": [0.1, 0.4], "ridge": [0.01, 1.0], "activation": ["relu", "tanh"]},
}


def problems() -> list[one.Problem]:
    """Forty: every option of the network, then those that only simulation knows."""
    shapes = itertools.cycle([(120, 60, 180), (160, 160, 80), (90, 45, 200), (150, 40, 60)])
    functions = itertools.cycle(["relu", "tanh", (0, 1, 0.5), "softplus", "gelu", (0, 0.8, 0, 0.3), "sin", "elu"])
    teachers = itertools.cycle([(0, 1, 0.7071), "relu", (0, 1), (0, 0.5, 0, 0.4), "tanh"])
    steps = itertools.cycle([0.0, 0.2, 0.3, 0.4, 0.5, None, 0.45])
    plain = itertools.product(
        ("full", "labels"), ("sphere", "gaussian"), ("gaussian", "rademacher", "constant"), (0, 0.5)
    )
    options = [dict(zip(("gradient", "weights", "readout", "noise"), row, strict=True)) for row in plain]
    options += [{"inputs": law} for law in ("rademacher", "uniform", "student", "ar1", "power", "elliptic")]
    options += [{"steps": 2}, {"steps": 3, "batch": "reused"}, {"directions": 2}, {"directions": 3, "mix": "staircase"}]
    options += [{"n_step": 75}, {"n_step": 400, "gradient": "labels"}, {"centred": False, "gradient": "labels"}]
    options += [{"ridge": r} for r in (1e-3, 10.0, 1e-6)]
    made = []
    for k, extra in enumerate(options):
        (n, d, N), alpha = next(shapes), next(steps)
        step = one.Step(constant=0.5 + 0.5 * (k % 3), exponent=alpha) if alpha is not None else one.Step.none()
        fields = {"n": n, "d": d, "N": N, "ridge": (0.01, 0.1, 1.0)[k % 3], "step": step} | extra
        made.append(one.Problem(activation=next(functions), teacher=next(teachers), **fields))
    return made


def numbers(ask, *names: str) -> list:
    """The fields of what `ask` returns as nested lists; the sentence when it refuses."""
    try:
        found = ask()
    except (one.TheoryError, one.InputError) as error:
        return [str(error)]
    return [np.asarray(getattr(found, name), float).tolist() for name in names]


def of_problem(p: one.Problem) -> dict:
    told = {f"predict {m}": numbers(lambda m=m: one.predict(p, method=m, throw=False), *ERRORS) for m in METHODS}
    told["grid"] = numbers(lambda: one.predict_grid(p, [0.1, 0.35], [0.05, 0.5]), *ERRORS)
    told["learned"] = numbers(lambda: one.learned(p), "fraction")
    told["spectrum"] = numbers(lambda: one.spectrum(p, density=False), "leading", "edge")
    run = one.simulate(p, 3)
    told["simulate"] = [np.asarray(getattr(run, name).values).tolist() for name in ERRORS]
    return told


def of_estimators() -> dict:
    rng = np.random.default_rng(7)
    told = {}
    for name in ("relu", "tanh"):
        X, fresh = rng.standard_normal((240, 12)), rng.standard_normal((20, 12))
        y = X[:, 0] + X[:, 1] ** 2 + 0.1 * rng.standard_normal(240)
        told[f"regressor {name}"] = (
            one.OneStepRegressor(random_state=3, activation=name).fit(X, y).predict(fresh).tolist()
        )
        classes = (y > y.mean()).astype(int)
        model = one.OneStepClassifier(random_state=3, activation=name).fit(X, classes)
        told[f"classifier {name}"] = model.predict_proba(fresh).tolist()
        features = one.OneStepFeatures(random_state=3, activation=name).fit(X, y)
        told[f"features {name}"] = features.transform(fresh).tolist()
    return told


def of_rows(rows) -> dict:
    told = {}
    for row in rows:
        p = row.problem
        name = f"{p.activation} {p.step.exponent} {p.ridge}"
        told[name] = [[row.estimate(e).values.tolist(), row.predicted(e)] for e in (*ERRORS, "test_gain")]
    return dict(sorted(told.items()))


def everything(store: Path) -> dict:
    told = {f"problem {k}": of_problem(p) for k, p in enumerate(problems())}
    told["estimators"] = of_estimators()
    told["sweep"] = of_rows(one.sweep(SWEEP, store, workers=1))
    return told


def leaves(value, path: str = ""):
    if isinstance(value, dict):
        for key, part in value.items():
            yield from leaves(part, f"{path}/{key}")
    elif isinstance(value, list):
        for k, part in enumerate(value):
            yield from leaves(part, f"{path}/{k}")
    else:
        yield path, value


def difference(old, new) -> float:
    if isinstance(old, str) or isinstance(new, str) or old == new:
        return 0.0 if old == new else math.inf
    if old is None or new is None or math.isnan(old) or math.isnan(new):
        return 0.0 if old is new or (old != old and new != new) else math.inf
    return abs(old - new) / max(abs(old), 1e-300)


def kind(path: str) -> str:
    first, *rest = path.strip("/").split("/")
    return rest[0] if first.startswith("problem") else first


def check(old: dict, new: dict) -> int:
    before, after = dict(leaves(old)), dict(leaves(new))
    missing = sorted(before.keys() ^ after.keys())
    worst: dict[str, tuple[float, str]] = {}
    same: dict[str, list[bool]] = {}
    for path in before.keys() & after.keys():
        gap = difference(before[path], after[path])
        same.setdefault(kind(path), []).append(gap == 0)
        worst[kind(path)] = max(worst.get(kind(path), (0.0, "")), (gap, path))
    for name, (gap, path) in sorted(worst.items()):
        print(f"{name:20} {sum(same[name]):6d} of {len(same[name]):6d} equal; largest difference {gap:.1e} {path}")
    for path in missing[:10]:
        print("only on one side:", path)
    return int(bool(missing) or any(gap > ALLOWED for gap, _ in worst.values()))


def main() -> int:
    word, name = sys.argv[1:]
    file, store = Path(f"{name}.json"), Path(name)
    if word == "record":
        shutil.rmtree(store, ignore_errors=True)
        file.write_text(json.dumps(everything(store)), encoding="utf-8")
        return 0
    old = json.loads(file.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        wrong = check(old, json.loads(json.dumps(everything(Path(folder) / "store"))))
        shutil.copytree(store, Path(folder) / "old")
        again = of_rows(one.sweep(SWEEP, Path(folder) / "old", workers=1))
    wrong |= int(again != old["sweep"])
    print("the recorded store opens and has its rows" if again == old["sweep"] else "the recorded store has other rows")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
