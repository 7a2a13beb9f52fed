"""The default theory against the full simulation: benchmarks/verify_theory.py draws it here, that of every_size.py is on file."""

import json
from pathlib import Path

import every_size
import numpy as np
import pytest
import verify_theory
from scipy.stats import norm
from scipy.stats import t as student


def share_within(n: int, seeds: int, every: int, first_seed: int) -> float:
    """Share of numbers with |theory − simulation| ≤ max(t standard errors, 2 %).

    t is to Student's law with seeds − 1 degrees of freedom what 3 is to the normal one, 4.5 for 8 seeds.
    """
    t = student.ppf(norm.cdf(3), seeds - 1)
    problems = [p.to_dict() for p in verify_theory.design(n)[::every]]
    within = []
    for i, p in enumerate(problems):
        values = np.array([verify_theory.run_seed((p, first_seed + i * seeds + k)) for k in range(seeds)])
        mean, stderr = values.mean(0), values.std(0, ddof=1) / np.sqrt(seeds)
        theory = np.array(verify_theory.predict_with(p, {"method": "auto"}))
        within.append(np.abs(theory - mean) <= np.maximum(t * stderr, 0.02 * mean))
    return float(np.mean(within))


@pytest.mark.statistical(rate=0.02)
def test_at_least_95_percent_of_numbers_agree_at_n_500(seed):
    """6 of 192 configurations, 8 seeds each, 432 numbers, fifteen seconds of one core."""
    assert share_within(500, seeds=8, every=34, first_seed=900_000 + 1000 * seed) >= 0.95


@pytest.mark.slow
@pytest.mark.statistical(rate=0.02)
def test_at_least_95_percent_of_numbers_agree_at_n_1000(seed):
    """12 of 192 configurations, 8 seeds each, 864 numbers, all activations, teachers, shapes and both gradients among them.

    Resampled from 21 seeds a configuration the share is 99.5 ± 0.8 %, below 95 % once in 300 times, and with a theory 5 %
    higher below 95 % in 99 of 100. The numbers of one configuration share their seeds and move together, so this scatters
    far more than 864 independent ones. With plain 3 standard errors of six seeds, 3 % of Student's law each, it was
    96.4 ± 2.5 %, below 95 % every fourth time.
    """
    assert share_within(1000, seeds=8, every=17, first_seed=900_000 + 1000 * seed) >= 0.95


@pytest.mark.slow
@pytest.mark.statistical(rate=0.02)
def test_at_least_95_percent_of_numbers_agree_at_n_4000(seed):
    """Eight configurations, 8 seeds each: the n = 4,000 table of docs/verification.md, 98.8 %; about an hour of one core.

    Fewer do not bear the claim: the 72 numbers of a configuration share their seeds and move together. Two
    configurations with 5 seeds each gave 83 % on one set of seeds, and on others both were entirely within.
    """
    assert share_within(4000, seeds=8, every=25, first_seed=1000 * seed) >= 0.95


@pytest.mark.parametrize("every", [25, pytest.param(1, marks=pytest.mark.slow)])
def test_another_simulator_agrees_at_every_size(every):
    """Of 250 random problems with n/d from 1 to 100, simulated by torch without a line of this package, each 25th (or all)."""
    runs = json.loads(Path(every_size.__file__).with_suffix(".json").read_text(encoding="utf-8"))[::every]
    numbers = every_size.Numbers([every_size.predict((run, None)) for run in runs])
    told = ~numbers.marked  # without a caution
    assert told.mean() > 0.9
    assert numbers.within[told].mean() > 0.98
    assert not (told & (np.abs(numbers.gap) > 0.05 + 3 * numbers.stderr / numbers.mean)).any()  # 5 % off, surely
