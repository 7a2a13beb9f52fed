"""One prediction of every kind, as stores hold them: whoever changes such a number on purpose raises `NUMERICS["theory"]`."""

import pytest

import onestride as one
from onestride import Covariance, Step
from onestride.result import QUANTITIES
from onestride.sweeps.cells import NUMERICS

BASE = {"n": 300, "d": 60, "N": 240, "teacher": [0, 1, 0.7], "noise": 0.5, "ridge": 0.05, "step": Step(exponent=0.4)}
FEW = {"gradient": "labels", "n_step": 150, "activation": "softplus", "teacher": [0, 1, 0.5, 0.3]}
ALIKE = {"readout": "constant", "activation": "tanh", "teacher": "tanh", "step": Step(constant=2, exponent=0.4)}
ROWS = {"weights": "gaussian", "readout": "rademacher", "activation": "erf", "step": Step(constant=2, exponent=0.4)}
AGAIN = {"steps": 2, "batch": "reused", "activation": "softplus", "step": Step(constant=0.5, exponent=0.4)}
SPIKED = {"d": 100, "inputs": Covariance.spiked(100, 20.0, 0.5), "activation": "erf", "teacher": [0, 1]}
WEAK = {"step": Step(exponent=0.2)}

# changes of BASE; ridge objective, training and test error
NUMBERS = {
    "one step": ({}, [0.506463, 0.349782, 1.32587]),
    "labels alone": (FEW, [0.782482, 0.605029, 1.47445]),
    "readouts of one size": (ALIKE, [0.184845, 0.143774, 0.358643]),
    "outputs that add up": ({"readout": "constant"}, [0.474279, 0.340082, 1.14482]),
    "Gaussian rows": (ROWS, [0.895164, 0.726936, 1.68308]),
    "two directions": ({"directions": 2, "n": 600, "teacher": [0, 1, 0.5]}, [0.486095, 0.415182, 0.782698]),
    "entries ±1": ({"d": 100, "inputs": "rademacher"}, [0.566896, 0.397312, 1.69429]),
    "uniform entries": ({"d": 30, "inputs": "uniform", "step": Step.none()}, [0.620907, 0.427677, 1.29136]),
    "no step": ({"n": 200, "N": 400, "step": Step.none()}, [0.315307, 0.111507, 1.96716]),
    "degree two": ({"n": 1500, "d": 30, "N": 900, "activation": "gelu"} | WEAK, [0.433629, 0.28306, 0.500725]),
    "three steps": ({"steps": 3, "activation": "erf"}, [0.678693, 0.505815, 1.88764]),
    "one batch twice": (AGAIN, [0.831683, 0.652042, 1.40965]),
    "samples of the step": ({"fresh": False, "gradient": "labels"}, [0.402653, 0.284883, 1.34429]),
    "covariance": ({"d": 120, "inputs": "ar1"}, [0.488067, 0.339219, 1.25122]),
    "covariance, two steps": (
        {"d": 120, "inputs": "ar1", "steps": 2, "activation": "erf"} | WEAK,
        [0.811048, 0.609495, 1.94495],
    ),
    "spike": (SPIKED | WEAK, [0.186946, 0.141092, 0.406946]),
    "lengths": ({"d": 100, "inputs": "elliptic"} | WEAK, [0.713237, 0.455164, 4.61748]),
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_are_those_of_their_numerics(kind):
    changes, expected = NUMBERS[kind]
    found = one.predict(one.Problem(**BASE | changes), throw=False)
    assert NUMERICS["theory"] == 3
    assert [getattr(found, name) for name in QUANTITIES] == pytest.approx(expected, rel=1e-3)
