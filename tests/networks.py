"""The problem that tests of the simulation measure, the array libraries they measure it with, and the gap between two."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import onestride as one

QUANTITIES = ("train_loss", "train_mse", "test_error")
TORCH = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
LIBRARIES = ["strict", pytest.param("torch", marks=TORCH)]  # the reference implementation of the standard, and torch
EXPONENTS, RIDGES = [0.1, 0.3, 0.5], [0.01, 0.1, 1.0]


def problem(**changes) -> one.Problem:
    sizes = {"n": 512, "d": 256, "N": 768} | changes
    step = one.Step(constant=1.0, exponent=0.3)
    return one.Problem(**({"activation": "relu", "teacher": (0, 1, 0.7071), "noise": 0.5, "step": step} | sizes))


def largest_gap(a: one.Simulation, b: one.Simulation, *, raw: bool = False) -> float:
    """Of precise values, or of the plain ones."""

    def values(simulation: one.Simulation, q: str) -> np.ndarray:
        estimate = getattr(simulation, q)
        return (estimate.raw if raw else estimate).values

    return max(float(np.abs(values(a, q) / values(b, q) - 1).max()) for q in QUANTITIES)
