"""Where the profile theory is known to be off by more than 5 %, and the sentence that says why.

What it leaves out, one by one. The limits of the first two were set on the problems of benchmarks/reliability.py, those of the next three
on benchmarks/every_size.py, those of stretched and bent on 52 random problems of several directions, those of the last two on random
problems of other inputs; that of degrees is where a block of dimension B_l visibly differs from noise. f is the squared length
η² φ₀ E r² Var σ'/N that the gradient's fluctuations add to a neuron, θ the amplitude of the step, φ₀ = d/n_step:

    tails      a nonlinear part of kurtosis κ averages out over min(n, N) rows or neurons only: κ g/min(n, N) > 0.09, g the
               factor by which its power grows with f; > 0.06 where N ≥ n and λ is below 0.05 of that part's power (96 seeds: training errors
               are low by 0.8 κ/n there, at N ≈ n/2 by nothing, test errors by 0.3 κ/n at most)
    edge       n ≤ N, n(√(N/n) − 1)² < 3 and λ below (25/n)² of the nonlinear part's power p: the training error is that of the few smallest
               eigenvalues, and low by about √(p/λ)/n (H₁ + 0.8 H₂, λ = 0.001, six of six problems 7 to 18 %; gelu, λ = 0.0001, 15 %)
    noise      f > 8: the fluctuations are three times as long as the neurons were, and no longer small; f κ_r > 40 with residuals of
               kurtosis κ_r: a few samples carry them
    batch      with fewer than 500 and than 1.25 d samples in the step M's law at n → ∞ is not yet that of the batch, which
               matters when M moves neurons by 2|c₂|η√(φ₀E r²/N) > 0.7 √(n_step/500) of their length
    output     with a_j = 1/√N the neurons' quadratic parts add up, and the network's own output in the literal gradient has
               more than twice the power of the labels, or 2c₂²N/d more than 0.3 of it and θ > 0.5: the step follows it, not them
    few        a_j = 1/√N, M stretches all neurons alike, by S of `one_readout`: S₂ − 1 > 0.02 d, t̂ᵀSt̂/E S − 1 > 0.045 d (limits of this and the next
               set on 584 random problems with a step of m θ > 0.15, 32 seeds, m = 2|c₂|η√(φ₀E r²/N) of a neuron's length, θ along t̂)
    grown      the same with E S > 4, and 1.8 where λ is below a tenth of E σ²; labels without noise, max(n, N) > B₂/4 and S₂ − 1 > 0.2
    shared     the same where it is described to first order, at the levels of one degree, for inputs that are not Gaussian and where degree two is
               learned: labels of which a share s < 0.53 is no linear function of x, m θ > max(0.1, 3.5 s²)
    exact      labels without noise, a step, and a test error below 2 % of their power (below 1 % where they are a linear function of x; of those
               with a covariance 8 %, and 16 % with a step: 7 % too high at 2 to 7 %, 36 % at 0.5 %): all that is left of it is small terms
    alike      a readout of one size (constant, ±1), min(n, N) from 0.3 to 3 times d²/(2S₂²), S₂ = tr Σ²/d, M moves neurons by 2|c₂|η/√N > 0.05,
               the first order that is left out (0.25 with a covariance or several steps), λ below a tenth of E σ²: test errors up to 10 % low
    tied       M ties a neuron's weights along t̂ and e, the unlearned part of β⋆, by a correlation above 0.45 (root mean square), and
               features know of it to first order: a fifth of them is left out. 23 % of 216 such numbers missed, 2 % of all
    growth     with several steps of the literal gradient, a residual whose power grows more than 30-fold from step to step (6-fold on
               one batch): descent beyond its stability bound multiplies whatever is left out
    chance     with several steps, labels whose correlation c⋆₁ with the teacher's direction is below 5 √(E[r²z⋆²]/n_step), what a batch
               shows by chance: later steps make that grow
    amplified  several steps that move neurons by more than half of their length, and make their first weights along β⋆ grow by more than
               0.15 of it (three of four such problems were off); or three steps and more on one batch that move them by more than it
    luck       several steps whose moves along β⋆ nearly cancel: what batches add to them by chance is above 0.2 of what is left
    shrunk     several steps that leave the rest of the weights of more than a tenth of the neurons below half of its variance, as saturating
               neurons do (tanh, n = 8d = 4,000, ten steps of √n on labels z⋆: test error 10 % low; two steps, above half: 0.3 %)
    travelled  several steps on inputs that are not isotropic: neurons moved by more than 1.5 of their length; first weights along the
               largest eigenvector changed by more than 0.3 of themselves; or a literal gradient with c₁²η above 3 times its bound, on one
               batch from three steps on above its bound: a few eigenvectors of the batch grow, and of a linear network (power, d = 577, 1.5
               times the bound) the residual's power differs by a half from draw to draw
    further    several steps with several directions or a covariance: weights above 0.25 along directions beyond those resolved
    degrees    degrees beyond those resolved that are not yet noise, B_l < 3 max(n, N)
    stretched  of several directions those that the step does not learn: M stretches neurons along them from variance G to E, which
               is no longer small beside all d inputs, √2 |E/G − 1| S₂² > 0.03 d (root mean square over neurons); of one direction the
               part e of β⋆ that the step does not learn, √2 |E/G − 1| (1 − ζ²) S₂² > 0.015 d, ζ the learned part (limit set on 24 problems with
               c⋆₁ from 0 to 0.3): degree two, which then learns H₂(e·x), has d − 1 functions (e·x)(v·x) that are stretched, too. With readouts of one size, all stretched alike,
               two thirds of both limits (silu, 0.012 d: test errors 11 and 15 % low). Labels H₂(z⋆),
               silu, n = 653, d = 23, N = 346, c = 2, α = ½, λ = 0.01: test error 0.03, and 0.25 drawn
    bent       the same directions when the gradient of degree three, 3c₃η T(w, w)/√N with T = E[g H₃(u)], bends neurons towards
               them: 3√2 |c₃| η |T| > 0.15 d
    covariance (limits set on 75 random problems, those of spikes on 400) fewer than 30 directions, (tr Σ)²/tr Σ² without a resolved spike (60 for a teacher of several);
               with a step two eigenvalues that each hold a quarter of what is left of tr Σ², one above 2√d, f λ_max > 5 (1 of a spike: −4 % at
               0.75, −12 % at 3), weights along a spike that the teacher's quadratic part makes grow by more than 0.4, or a readout of one size,
               N > n and a network's own output along the spike that moves pre-activations by more than 0.2
    entries    independent entries of excess kurtosis κ are described to first order in κ/d, the gradient on them as on Gaussian ones: |κ| above
               0.075 d with a step (0.15 d without), and the power that no linear predictor reaches changes by more than 3 %, or neurons of
               one readout share a mean that sees |x| (±1 entries, d = 20, labels H₁ + 0.7 H₂, α = 0.2: 6 % high; Student, d = 60: 5 %),
               or the teacher has several directions (Student, d = 21, three of relu: 20 % high at λ = 1), with several steps from 0.015 d on
    lengths    random lengths of the inputs: d < 20; f > 0.04, f with their law; teacher or activation like |x|^k, E ℓ^{2k} = ∞: errors
               have no mean (with the law's 5 degrees of freedom from k = 5/2 on); or a quarter of E y² or E σ² goes like ℓ⁴: no variance, draws show less
    own        a readout fitted on the samples of the step: residuals of kurtosis κ_r > 0.02 n, with a covariance a nonlinear part of kurtosis
               > 0.02 n (H₁ + 0.4 H₂: 2 of 8 problems were 16 % off), own shares of the gradient that move
               pre-activations by ηφ₀√(E r²/N) > 0.3, or a literal gradient with c₁²η above twice 2/(1 + φ₀) (limits set on 80 random
               problems)

The levels of one degree (and finite-step, which stands on one) leave out degrees two and higher and the length of x: the
untrained network's errors with all of them, relative to theirs, are known, δ, and a step makes them weigh more: δ(1 + 2θ).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onestride._numerics import Array, relative_gap
from onestride.problem import Problem, Step
from onestride.result import QUANTITIES, Errors, Status
from onestride.theory.assumptions import failed_assumption
from onestride.theory.direction import direction
from onestride.theory.profile.errors import errors as profile_errors
from onestride.theory.profile.harmonics import HIGHEST_DEGREE, degrees_resolved, multiplicity
from onestride.theory.profile.memory import tie
from onestride.theory.profile.neurons import learned_direction
from onestride.theory.profile.strength import unlearned_stretch
from onestride.theory.profile.travel import travel
from onestride.theory.reliability_of_inputs import KNOWN_OFF, by_covariance, by_entries, by_few_entries, second_moment
from onestride.theory.reliability_of_readouts import SMALL_PENALTY, by_one_readout, by_one_readout_at
from onestride.theory.reliability_of_steps import by_steps, fluctuation
from onestride.theory.tails import nonlinear_tails, residual_kurtosis

_WITH_STEP = 2.0  # how a step of amplitude 1 multiplies what the unresolved degrees are worth, beside 1
_TAILS, _TAILS_INTERPOLATING, _SMALL = 0.09, 0.06, 0.05
_EDGE, _AT_EDGE = 3.0, 25.0
_NOISE, _BY_TAILS = 8.0, 40.0
_FEW_SAMPLES, _FOR_INPUTS, _MOVED = 500, 0.8, 0.7
_OUTPUT, _ADDED, _FAR = 2.0, 0.3, 0.5
_EXACT, _LITTLE, _TURNED = 0.02, (0.01, 0.02), (0.08, 0.16)  # of the labels' power: what is not linear, and test errors
_AT_INTERPOLATION, _MOVED_ALIKE = (0.3, 3.0), 0.25
_TIED = 0.45
_NOT_NOISE = 3.0
_STRETCHED, _STRETCHED_ALONE = (0.03, 0.02), (0.015, 0.01)  # of Gaussian readouts, and of those of one size
_BENT = 0.15
_OWN_TAILS, _OWN, _OVERSHOT = 0.02, 0.3, 2.0  # of a row's own share of the gradient
OFF_IN_A_ROW = 2  # sizes of several steps known to be off, after which `search` need not ask about larger ones
_UNCHECKED = 0.1  # of n or N over d²/2, where the comparison with every degree has no solution


def mark(
    problem: Problem,
    steps: list[Step],
    ridges: Array,
    errors: Errors,
    untrained: Errors,
    *,
    every_degree: bool,
    asked: bool = False,
) -> Errors:
    """`errors` with the solved cells that are known to be off by more than 5 % marked as such; numbers stay.

    `asked`: whoever calls knows that no step is off whatever the penalty (`known_off`).
    """
    status, message = errors.status.copy(), errors.message.copy()
    if not (status == Status.SOLVED).any() or failed_assumption(problem.replace(step=Step.none())) is not None:
        return errors
    resolved = plain = None
    if not every_degree:
        every = profile_errors(problem, [Step.none()], ridges)
        resolved = np.stack([getattr(every, name)[0] for name in QUANTITIES])
        plain = np.stack([getattr(untrained, name)[0] for name in QUANTITIES])
    for i, step in enumerate(steps):
        stepped = problem.replace(step=step)
        whole = None if asked else known_off(stepped)
        for j in np.flatnonzero(status[i] == Status.SOLVED):
            reason = whole or off_at(stepped, float(ridges[j]), float(errors.test_error[i, j]))
            if reason is None and plain is not None and resolved is not None:
                reason = by_one_readout(stepped, first_order=True) if stepped.eta else None
                reason = reason or _by_degrees(stepped, plain[:, j], resolved[:, j])
            if reason is not None:
                status[i, j], message[i, j] = Status.INACCURATE, f"{Status.INACCURATE.value}: {reason}"
    return replace(errors, status=status, message=message)


def off_at(problem: Problem, ridge: float, test_error: float) -> str | None:
    """What `known_off` cannot see, as it depends on the penalty and on what was found."""
    reason = (
        _exact(problem, test_error)
        or by_few_entries(problem, ridge)
        or _alike(problem, ridge)
        or by_one_readout_at(problem, ridge)
    )
    return reason or (_interpolating(problem, ridge) if problem.n <= problem.N else None)


def known_off(problem: Problem) -> str | None:
    """Why the theory of every degree is known to be off by more than 5 % for this problem; None when it is not."""
    reason = _unresolved(problem) or by_covariance(problem) or by_entries(problem)
    if reason is not None:
        return reason
    spread, few = fluctuation(problem), min(problem.n, problem.N)
    tails, growth = nonlinear_tails(problem.sigma, min(spread, _NOISE))
    if tails * growth / few > _TAILS:
        return _heavy(problem, tails, growth)
    if problem.eta == 0:
        return None
    if problem.steps > 1:
        return by_steps(problem) or _loud(problem) or _few(problem, _moved_by_batches(problem))
    return _by_step(problem, spread) or (None if problem.fresh else _by_own_share(problem))


def _heavy(problem: Problem, tails: float, growth: float) -> str:
    step = f", its power grows {growth:.3g}-fold by the fluctuations of the step," if growth > 1.1 else ","
    return (
        f"the nonlinear part of activation {problem.sigma.name!r} has kurtosis {tails:.3g}{step} too heavy a tail "
        f"for min(n, N) = {min(problem.n, problem.N)} to average out"
    )


def _interpolating(problem: Problem, ridge: float) -> str | None:
    """More neurons than samples and a small penalty: what is left of the training error is decided by the smallest eigenvalues."""
    n, N, power = problem.n, problem.N, problem.sigma.nonlinear_power
    tails, growth = nonlinear_tails(problem.sigma, min(fluctuation(problem), _NOISE))
    if ridge < _SMALL * power and tails * growth / n > _TAILS_INTERPOLATING:
        return f"{_heavy(problem, tails, growth)} where they interpolate"
    distance = (N - n) ** 2 / (np.sqrt(float(N)) + np.sqrt(float(n))) ** 2  # n(√(N/n) − 1)²
    if ridge < power * (_AT_EDGE / n) ** 2 and distance < _EDGE:
        return (
            f"with N = {N} neurons for n = {n} samples, and λ = {ridge:.3g} that is small beside the power {power:.3g} of the nonlinear part of activation "
            f"{problem.sigma.name!r}, the training error is that of a few eigenvalues, the smallest, which are not yet those of large n"
        )
    return None


def _by_step(problem: Problem, spread: float) -> str | None:
    if spread > _NOISE:
        return (
            f"the step is so strong that the fluctuations of the gradient, {np.sqrt(spread):.2g} times as long as a neuron "
            "was, are no longer small beside it"
        )
    tails = residual_kurtosis(problem)
    if spread * tails > _BY_TAILS:
        return (
            f"the fluctuations of the gradient add {spread:.2g} to the squared length of a neuron, and residuals of kurtosis "
            f"{tails:.3g} leave them to a few samples"
        )
    power, phi0 = direction(problem).residual_power, problem.d / problem.step_samples
    moved = 2 * abs(problem.sigma.coefficients[2]) * problem.eta * np.sqrt(phi0 * power / problem.N)
    return (
        _loud(problem)
        or _few(problem, moved)
        or by_one_readout(problem)
        or _tied(problem)
        or _by_the_unlearned_part(problem)
    )


def _tied(problem: Problem) -> str | None:
    """What M does to neurons' weights along the learned direction and the rest of the teacher's together."""
    if problem.directions > 1 or not problem.law.isotropic:
        return None
    tied = tie(problem, learned_direction(problem, through_output=True), beyond=_TIED)
    if tied > _TIED:
        return (
            f"the batch's second moments tie neurons' weights along the learned direction to those along the rest of the teacher's, with "
            f"correlation {tied:.2g}, which is described to first order"
        )
    return None


def _by_own_share(problem: Problem) -> str | None:
    """A readout fitted on the samples of the step: how rows and neurons hang together beyond a row's own share."""
    tails, start = residual_kurtosis(problem), "the readout is fitted on the samples of the step, and"
    if tails > _OWN_TAILS * problem.n:
        return f"{start} residuals of kurtosis {tails:.2g} make a few of the {problem.n} rows carry most of what it has seen"
    power = problem.target.second_moment + problem.noise**2
    if problem.target.nonlinear_power + problem.noise**2 < _EXACT * power:
        return f"{start} labels that are a linear function of the inputs without noise leave small terms, which are not described"
    heavy = nonlinear_tails(problem.sigma, 0.0)[0]
    if not problem.law.isotropic and heavy > _OWN_TAILS * problem.n:
        return (
            f"{start} the nonlinear part of activation {problem.sigma.name!r} has kurtosis {heavy:.3g}: with a covariance of the inputs a few of "
            f"the {problem.n} rows carry most of what it has seen"
        )
    own = problem.eta * problem.phi * np.sqrt(direction(problem).residual_power / problem.N)
    if own > _OWN:
        return f"{start} their own shares of the gradient move their pre-activations by {own:.2g}"
    bound, size = 2 / (1 + problem.phi), problem.sigma.coefficients[1] ** 2 * problem.eta
    if problem.gradient == "full" and size > _OVERSHOT * bound:
        return (
            f"{start} the step is far beyond the largest with which descent is stable (c₁²η = {size:.3g}, and up to {bound:.3g} is): the "
            "network's own output, turned round by it, hangs together with those samples"
        )
    return None


def _moved_by_batches(problem: Problem) -> float:
    """By how much of their length the batches' M̂ moves neurons."""
    path = travel(problem)
    bend = np.sqrt(path.end.weight @ path.bends.sum(1) ** 2)
    return float(bend * np.sqrt(problem.d / problem.step_samples * path.shared_power))


def _loud(problem: Problem) -> str | None:
    output, labels = direction(problem).output_power, problem.target.second_moment + problem.noise**2
    if problem.gradient != "full" or problem.readout != "constant":
        return None
    added = 2 * problem.sigma.coefficients[2] ** 2 / problem.psi
    if output > _OUTPUT * labels or (added > _ADDED * labels and _amplitude(problem) > _FAR):
        return (
            f"with a constant readout the network's own output has {_times(output, labels)} the power of the labels, and the step "
            "follows it"
        )
    return None


def _times(power: float, of: float) -> str:
    return f"{power / of:.2g} times" if of > 1e-300 * power else "any number of times"


def _few(problem: Problem, moved: float) -> str | None:
    few = problem.step_samples < min(_FEW_SAMPLES, problem.d / _FOR_INPUTS)
    if few and moved > _MOVED * np.sqrt(problem.step_samples / _FEW_SAMPLES):
        return (
            f"the {problem.step_samples} samples of the step are few for d = {problem.d}, and their second moment moves "
            f"neurons by {moved:.2g} of their length: its law is not yet that of many samples"
        )
    return _by_unlearned_directions(problem) if problem.directions > 1 else None


def _by_unlearned_directions(problem: Problem) -> str | None:
    learned = learned_direction(problem, through_output=True)
    stretched = second_moment(problem) * unlearned_stretch(problem, learned)
    if np.sqrt(2) * stretched * second_moment(problem) > _STRETCHED[problem.readout != "gaussian"] * problem.d:
        return _stretched_along("directions of the teacher that it does not learn", stretched, problem.d)
    size = np.ones(problem.directions)
    size[0] = np.sqrt(1 - learned.overlap**2)
    T = problem.target.tensor(3) * size[:, None] * size
    bent = 3 * np.sqrt(2) * abs(problem.sigma.coefficients[3]) * problem.eta * float(np.linalg.norm(T)) / problem.d
    if bent > _BENT:
        return (
            f"degree three of activation {problem.sigma.name!r} bends neurons towards directions of the teacher that the step does "
            f"not learn, by {bent:.2g} together, which is described in its mean only (d = {problem.d} is small for this step)"
        )
    return None


def _by_the_unlearned_part(problem: Problem) -> str | None:
    """What M does to neurons' weights along the rest of β⋆ alone: all of it where E[y z⋆] = 0."""
    if problem.directions > 1:
        return None
    learned = learned_direction(problem, through_output=True)
    rest = 1 - learned.overlap**2
    stretched = second_moment(problem) * unlearned_stretch(problem, learned)
    if (
        np.sqrt(2) * stretched * rest * second_moment(problem)
        > _STRETCHED_ALONE[problem.readout != "gaussian"] * problem.d
    ):
        all_of_it = "the teacher's direction, which it does not learn"
        part = all_of_it if rest > 0.99 else f"the {100 * rest:.0f} % of the teacher's direction that it does not learn"
        return _stretched_along(part, stretched, problem.d)
    return None


def _stretched_along(what: str, by: float, d: int) -> str:
    return f"the step stretches neurons along {what}, their variance there by {by:.2g} of itself, which is not small beside d = {d}"


def _exact(problem: Problem, test_error: float) -> str | None:
    power = problem.target.second_moment + problem.noise**2
    linear = problem.target.nonlinear_power + problem.noise**2 < _EXACT * power
    straight = problem.law.isotropic or problem.law.freedom is not None
    little = _LITTLE[not linear] if straight or not linear else _TURNED[problem.eta > 0]
    known = problem.eta == 0 and (straight or not linear)
    if known or problem.noise**2 >= _EXACT * power or test_error > little * power:
        return None
    what = "are a linear function of the inputs without noise" if linear else "have no noise"
    return f"the labels {what}, and the test error is {test_error / power:.2g} of their power: the small terms that make it up are not described"


def _alike(problem: Problem, ridge: float) -> str | None:
    """Neurons of one size of readout all move along M in the same way, which sums to xᵀMx; degree two sees that direction too."""
    if problem.eta == 0 or problem.readout == "gaussian" or ridge > SMALL_PENALTY * problem.sigma.second_moment:
        return None
    share = 2 * min(problem.n, problem.N) / problem.d**2
    share *= second_moment(problem) ** 2  # as many as degree two has directions
    least = KNOWN_OFF if problem.steps == 1 and problem.law.isotropic else _MOVED_ALIKE
    moved = 2 * abs(problem.sigma.coefficients[2]) * sum(problem.etas) / np.sqrt(problem.N)
    if not _AT_INTERPOLATION[0] < share < _AT_INTERPOLATION[1] or moved < least:
        return None
    return (
        f"all readouts are of one size, the batch's second moments move neurons by {moved:.2g} in the same way, and with "
        f"min(n, N) = {share:.2g} times its directions degree two of the inputs, which sees that move too, is just being learned"
    )


def _unresolved(problem: Problem) -> str | None:
    largest, d = max(problem.n, problem.N), problem.d
    if degrees_resolved(d, largest) < HIGHEST_DEGREE or multiplicity(d, HIGHEST_DEGREE + 1) > _NOT_NOISE * largest:
        return None
    return (
        f"degrees of the inputs beyond {HIGHEST_DEGREE} are learned and no longer noise (n = {problem.n}, N = {problem.N}, "
        f"{multiplicity(d, HIGHEST_DEGREE + 1):.3g} harmonics of degree {HIGHEST_DEGREE + 1} for d = {d})"
    )


def _amplitude(problem: Problem) -> float:
    """θ: how far the step moves a neuron along the learned direction, in units of its length."""
    return abs(learned_direction(problem).amplitude) if problem.eta else 0.0


def _by_degrees(problem: Problem, plain: Array, resolved: Array) -> str | None:
    """Why a level of one degree is off: δ(1 + 2θ) > 5 %, δ = max |plain/resolved − 1| over the three errors."""
    gap, sizes = relative_gap(plain, resolved), f"n = {problem.n}, N = {problem.N}, d²/2 = {problem.d**2 / 2:.3g}"
    if not np.isfinite(gap).all():
        few = 2 * max(problem.n, problem.N) > _UNCHECKED * problem.d**2
        return f"it treats degree two of the inputs as noise, and n or N is of order d²/2 ({sizes})" if few else None
    worst = int(np.argmax(gap))
    if not gap[worst] * (1 + _WITH_STEP * (amplitude := _amplitude(problem))) > KNOWN_OFF:
        return None
    name = ("ridge objective", "training error", "test error")[worst]
    text = (
        f"without a step its {name} is {plain[worst]:.3g}, and {resolved[worst]:.3g} when degree two and higher of the "
        f"inputs and their length are resolved ({sizes})"
    )
    if gap[worst] > KNOWN_OFF:
        return text
    return f"{text}; a step that moves neurons by {amplitude:.2g} of their length makes such parts weigh more"
