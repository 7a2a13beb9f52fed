"""Where several steps are known to be off by more than 5 %: growth, chance, luck, shrunk, amplified, travelled and further of `reliability`."""

from __future__ import annotations

import numpy as np

from onestride.problem import Problem
from onestride.theory.direction import direction
from onestride.theory.profile.anisotropy import sigma_of
from onestride.theory.profile.correlated import Course
from onestride.theory.profile.gradient_noise import signal_of
from onestride.theory.profile.leading import changed, to_first_order
from onestride.theory.profile.one_neuron import Path
from onestride.theory.profile.strength import isotropic_noise
from onestride.theory.profile.travel import stable, travel

_AMPLIFIED, _FAR = 0.15, 0.5
_FAR_BY_STEPS, _TURNED, _BEYOND = 1.5, 0.3, 3.0
_LUCK = 0.2
_SMALLEST, _SHRUNK = 0.5, 0.1  # a neuron's rest is followed from this variance on (`one_neuron`); neurons below it
_FIRST_ORDER = 0.25  # first order is off by 0.2 % at 0.05, and by the square of that
_CHANCE = 5.0  # of the standard deviations of c⋆₁ in a batch: their square is 4 % of its own then
MOST = 1e150  # of η, whose square is a number
_GROWTH = {"fresh": 30.0, "reused": 6.0}


def by_steps(problem: Problem) -> str | None:
    """Why several steps are known to be off by more than 5 %; None where they are not."""
    path = travel(problem)
    if path.grown > _GROWTH[problem.batch]:
        return (
            f"gradient descent is unstable here, c₁²η = {problem.sigma.coefficients[1] ** 2 * max(problem.etas):.3g} with a bound "
            f"of {stable(problem):.3g}: the residual's power grows {path.grown:.3g}-fold, and with it what is left out"
        )
    chance = np.sqrt(_found_by_chance(problem))
    if abs(problem.target.coefficients[1]) < _CHANCE * chance:
        return (
            f"labels and the teacher's direction have a correlation of {abs(problem.target.coefficients[1]):.2g}, and a batch shows "
            f"{chance:.2g} by chance: later steps make what was found by chance grow, differently in every draw"
        )
    if path.luck > _LUCK:
        return (
            f"the steps take neurons along the teacher and back, and what their batches add by chance is {path.luck:.2g} of what is left: it "
            "differs from draw to draw"
        )
    end = path.end
    shrunk = float(end.weight @ (end.v < _SMALLEST))
    if shrunk > _SHRUNK:
        return (
            f"the steps saturate {shrunk:.0%} of the neurons and leave less than {_SMALLEST:g} of the variance of their other weights: what is "
            "left of these is a small difference, which is described on average"
        )
    length = float(np.sqrt(end.weight @ (end.L**2).sum(1)))
    amplified = float(np.linalg.norm(changed(path, problem.d), 2))
    if length > _FAR and amplified > _AMPLIFIED:
        return (
            f"the steps move neurons by {length:.2g} of their length and make their first weights along the teacher grow by "
            f"{amplified:.2g} of it: the noise that comes with that growth is left out"
        )
    # two directions are coordinates of the rows, but not beside a spike's, or random lengths
    both = problem.law.isotropic or (problem.law.freedom is None and sigma_of(problem).spike is None)
    beyond = to_first_order(path, 2 if both else 1)
    if beyond > _FIRST_ORDER and (problem.directions > 1 or not problem.law.isotropic):
        return f"the steps leave neurons with weights of {beyond:.2g} of their length along further directions, which count to first order"
    reason = None if problem.law.isotropic else _under_a_covariance(problem, path, length)
    if reason is not None:
        return reason
    if problem.batch == "reused" and problem.steps > 2 and length > 1:
        return (
            f"{problem.steps} steps on one batch move neurons by {length:.2g} of their length: what they see in residuals that they "
            "have changed before is described for small moves"
        )
    return None


def _under_a_covariance(problem: Problem, path: Path, length: float) -> str | None:
    """What several steps do where Σ turns every direction."""
    if length > _FAR_BY_STEPS:
        return (
            f"several steps on inputs with a covariance or random lengths move neurons by {length:.2g} of their length: what Σ does to "
            "weights that have moved so far is described on average"
        )
    if isinstance(path, Course) and path.turned > _TURNED:
        return (
            f"the steps change neurons' first weights along the largest eigenvector of the inputs' covariance by {path.turned:.2g} of "
            "themselves: teachers of one law then differ too much for few of them to stand for all"
        )
    bound, size = stable(problem), problem.sigma.coefficients[1] ** 2 * max(problem.etas)
    if problem.batch == "reused" and problem.steps > 2 and problem.gradient == "full" and size > bound:
        return (
            f"{problem.steps} steps on one batch of inputs with a covariance are beyond the largest with which descent is stable, c₁²η = {size:.3g} "
            f"with a bound of {bound:.3g}: along the batch's largest eigenvectors, few and others in every draw, residuals grow"
        )
    if problem.gradient == "full" and size > _BEYOND * bound:
        return (
            f"several steps on inputs with a covariance are far beyond the largest with which descent is stable, c₁²η = {size:.3g} with a "
            f"bound of {bound:.3g}: along its largest eigenvectors they go astray differently in every draw"
        )
    return None


def _found_by_chance(problem: Problem) -> float:
    """E[r² z⋆²]/n_step, the variance of a batch's own correlation of residuals and the teacher's direction."""
    signal = signal_of(problem.target)
    labels = float(signal.weight @ (signal.g**2 * signal.uu[:, 0, 0])) + problem.noise**2
    return (labels + direction(problem).output_power) / problem.step_samples


def fluctuation(problem: Problem) -> float:
    """Squared length f = η² φ₀ E r² Var σ'/N that the gradient's fluctuations add to a neuron (the isotropic level's)."""
    if problem.steps > 1 and problem.eta > 0:
        end = travel(problem).end
        return max(float(end.weight @ end.v) - 1, 0.0)
    return min(problem.eta, MOST) ** 2 * isotropic_noise(problem) / problem.N if problem.eta else 0.0
