"""Intervals for few seeds, and a rule for adding seeds that does not spoil them.

Student's t interval is right for a number of seeds fixed beforehand. Looking again after each new seed and stopping when
the interval is narrow is not: its coverage falls below what it says. A confidence sequence holds at all looks at once, so
one may stop on it. We use the asymptotic one of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (2021, Theorem 2.2),

    mean ± s √( 2(tρ² + 1)/(t²ρ²) · log( √(tρ² + 1)/(1 − confidence) ) ),      s² the sample variance of t values,

with ρ chosen for the narrowest sequence near t = 20, from 8 values on, and widened by the ratio of Student's to the normal
quantile because s² is itself uncertain at few seeds.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri, stdtrit  # quantiles of the normal law and of Student's t

FIRST_LOOK = 8  # seeds before which the sequence says nothing
SHARPEST = 20  # the number of seeds at which it is narrowest


def student_half_width(values: np.ndarray) -> float:
    """Half the width of Student's 95 % interval of the mean; NaN for fewer than two values."""
    count = values.size
    return float(stdtrit(count - 1, 0.975) * values.std(ddof=1) / math.sqrt(count)) if count > 1 else math.nan


def sequence_half_width(values: np.ndarray, confidence: float = 0.95) -> float:
    """Half the width of the confidence sequence of the mean after these values; infinite before the first look."""
    t, error = values.size, 1 - confidence
    if t < FIRST_LOOK:
        return math.inf
    rho2 = (-2 * math.log(error) + math.log(1 - 2 * math.log(error))) / SHARPEST
    boundary = math.sqrt(2 * (t * rho2 + 1) / (t * t * rho2) * math.log(math.sqrt(t * rho2 + 1) / error))
    few = stdtrit(t - 1, (1 + confidence) / 2) / ndtri((1 + confidence) / 2)
    return float(few * boundary * values.std(ddof=1))


def sequence_stderr(values: np.ndarray) -> float:
    """The half-width of the 95 % confidence sequence in units of a standard error: divided by 1.96."""
    return sequence_half_width(values) / float(ndtri(0.975))
