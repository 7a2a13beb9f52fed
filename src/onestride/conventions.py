"""One problem in the scalings of five papers: `convert` to them, `problem_from` them, and say in words what changes.

| paper      | network                         | penalty                              | our λ    | our step          |
|------------|---------------------------------|--------------------------------------|----------|-------------------|
| moniri2024 | aᵀσ(Wx), a ~ N(0, 1/N)          | (1/n)‖y − Fa‖² + λ‖a‖²               | λ        | W + ηG, η = c·n^α |
| ba2022     | aᵀσ(Wx)/√N, W₀ ~ N(0, 1/d)      | (1/n)‖y − Φa‖² + (λ/N)‖a‖², Φ = F/√N | λ        | the same ηG       |
| cui2024    | aᵀσ(Wx)/√p, a = 1/√p            | Σ(y − aᵀφ/√p)² + λ_C‖a‖²             | λ_C·N/n  | η = η̃√p           |
| dandi2024  | as cui2024, a from a vocabulary | as cui2024                           | λ_C·N/n  | η = η̃√p           |
| mei2022    | random features                 | (1/n)‖y − Za‖² + (Nλ_MM/d)‖a‖²       | λ_MM·N/d | none              |

Hermite coefficients are unnormalised here and in Moniri et al. and Ba et al., c_k = E[σH_k]/k!; Cui et al. and Dandi et
al. use normalised polynomials, whose coefficients are c_k√k!. Test errors here contain the label noise; those of Ba et
al. and Mei & Montanari do not.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onestride.functions import InputError
from onestride.problem import EXTENSIONS, Problem, Step


@dataclass(frozen=True)
class Conversion:
    """A problem in a paper's own parameters; print it to read what changed and what could not be carried over.

    `parameters` are the arguments of `problem_from(paper, …)`, which gives the problem back.
    """

    problem: Problem
    paper: str
    parameters: dict[str, Any]
    words: tuple[str, ...]
    differences: tuple[str, ...]
    noise_in_test_error: bool = field(default=True)

    def test_error(self, ours: float) -> float:
        """A test error of ours in the paper's definition, with or without the label noise."""
        return ours if self.noise_in_test_error else ours - self.problem.noise**2

    def __str__(self) -> str:
        lines = [f"{TITLES[self.paper]}"]
        lines += [f"  {name} = {_show(value)}" for name, value in self.parameters.items()]
        lines += [f"  {sentence}" for sentence in self.words]
        lines += [f"  not the same: {sentence}" for sentence in self.differences]
        return "\n".join(lines)


TITLES = {
    "moniri2024": "Moniri et al. 2024 (the scaling of this package)",
    "ba2022": "Ba et al. 2022 (arXiv 2205.01445)",
    "cui2024": "Cui et al. 2024 (arXiv 2402.04980)",
    "dandi2024": "Dandi et al. 2024 (arXiv 2410.18938)",
    "mei2022": "Mei & Montanari 2022 (arXiv 1908.05355)",
}
PAPERS = tuple(TITLES)
_VOCABULARIES = {"constant": ((1.0,), (1.0,)), "rademacher": ((-1.0, 1.0), (0.5, 0.5))}


def convert(problem: Problem, paper: str) -> Conversion:
    """`problem` in the parameters of `paper` (one of `PAPERS`)."""
    changed = {name: getattr(problem, name) for name in EXTENSIONS}
    changed = {k: v for k, v in changed.items() if v != Problem.model_fields[k].default}
    if changed:
        given = ", ".join(f"{k}={v!r}" for k, v in changed.items())
        raise InputError(f"the papers have Gaussian inputs, one step and one direction of the teacher, got {given}")
    return _TO[_known(paper)](problem)


def problem_from(paper: str, **parameters: Any) -> Problem:
    """The problem that a paper describes by its own parameters; `convert(…).parameters` shows their names.

    >>> problem_from("cui2024", d=1000, alpha=2, beta=1, alpha0=20, eta_tilde=3, lam=0.1, activation="tanh",
    ...              teacher="sin")
    """
    maker = _FROM[_known(paper)]
    names = maker.__code__.co_varnames[: maker.__code__.co_argcount + maker.__code__.co_kwonlyargcount]
    optional = set(maker.__kwdefaults__ or {})
    unknown = [name for name in parameters if name not in names]
    if unknown:
        close = difflib.get_close_matches(unknown[0], names, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"
        raise InputError(f"{unknown[0]} is not a parameter of {paper}; {hint}")
    missing = [name for name in names if name not in optional and name not in parameters]
    if missing:
        raise InputError(
            f"{', '.join(missing)} missing: {paper} needs {', '.join(n for n in names if n not in optional)}"
        )
    return maker(**parameters)


def _known(paper: str) -> str:
    if paper not in TITLES:
        close = difflib.get_close_matches(str(paper), PAPERS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else ""
        raise InputError(f"paper must be one of {', '.join(PAPERS)}, got {paper!r}; {hint}".rstrip("; "))
    return paper


def _show(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _count(name: str, ratio: float, d: int) -> int:
    """ratio·d as a whole number of samples or neurons."""
    try:
        value = float(ratio) * d
    except (TypeError, ValueError):
        value = np.nan
    if not (np.isfinite(value) and value >= 0.5):
        raise InputError(f"{name} must be a number above 0 with {name}·d at least 1, got {ratio!r}")
    return max(1, round(value))


def _positive(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not (np.isfinite(number) and number > 0):
        raise InputError(f"{name} must be a finite number above 0, got {value!r}")
    return number


def _functions(problem: Problem) -> dict[str, Any]:
    return {"activation": problem.activation, "teacher": problem.teacher, "noise": problem.noise}


# ---------------------------------------------------------------------- Moniri et al. 2024


def _to_moniri(problem: Problem) -> Conversion:
    fields = {name: getattr(problem, name) for name in type(problem).model_fields if name not in EXTENSIONS}
    step = fields.pop("step")
    parameters = fields | {"c": step.constant, "alpha": step.exponent}
    words = (f"φ = d/n = {problem.phi:.4g}, ψ = d/N = {problem.psi:.4g}, η = c·n^α = {problem.eta:.4g}",)
    differences = []
    if problem.gradient == "full":
        differences.append("their theory replaces the residual y − f₀ in the gradient by y; gradient='full' keeps f₀")
    if problem.readout != "gaussian" or problem.weights != "sphere":
        differences.append("they take a Gaussian readout and rows of W₀ on the unit sphere")
    if problem.step_samples != problem.n:
        differences.append("they use n samples for the step as well")
    return Conversion(problem, "moniri2024", parameters, words, tuple(differences))


def _from_moniri(
    *,
    n: int,
    d: int,
    N: int,
    c: float = 0.0,
    alpha: float = 0.0,
    activation: Any = "relu",
    teacher: Any = (0.0, 1.0),
    noise: float = 0.0,
    ridge: float = 0.1,
    gradient: str = "full",
    weights: str = "sphere",
    readout: str = "gaussian",
    n_step: int | None = None,
    centred: bool = True,
) -> Problem:
    fields = {k: v for k, v in locals().items() if k not in ("c", "alpha")}
    return Problem(**fields, step=Step(constant=c, exponent=alpha))


# ---------------------------------------------------------------------- Ba et al. 2022


def _to_ba(problem: Problem) -> Conversion:
    parameters: dict[str, Any] = {"d": problem.d, "psi1": problem.n / problem.d, "psi2": problem.N / problem.d}
    parameters |= {"eta": problem.eta, "lam": problem.ridge} | _functions(problem)
    words = (
        "ψ₁ = n/d and ψ₂ = N/d: the inverses of our φ and of our ψ",
        "f has a factor 1/√N and the update is η√N·G₀, so ηG and λ are the same numbers as ours",
        "their risk leaves out the label noise: subtract noise² from our test error",
    )
    differences = []
    if problem.gradient == "full":
        differences.append("their output is O(1/√N) at initialisation, so y stands for the residual: gradient='labels'")
    if problem.weights == "sphere":
        differences.append("their rows of W₀ are Gaussian with variance 1/d, ours lie on the sphere; equal as d → ∞")
    if problem.readout != "gaussian":
        differences.append("their readout is N(0, 1/N)")
    if problem.step_samples != problem.n:
        differences.append("they use n samples for the step as well")
    return Conversion(problem, "ba2022", parameters, words, tuple(differences), noise_in_test_error=False)


def _from_ba(
    *, d: int, psi1: float, psi2: float, eta: float, lam: float, activation: Any, teacher: Any, noise: float = 0.0
) -> Problem:
    return Problem(
        n=_count("psi1", psi1, d),
        d=d,
        N=_count("psi2", psi2, d),
        activation=activation,
        teacher=teacher,
        noise=noise,
        ridge=lam,
        step=Step(constant=eta),
        gradient="labels",
        weights="gaussian",
    )


# ---------------------------------------------------------------------- Cui et al. 2024 and Dandi et al. 2024


def _giant(problem: Problem) -> tuple[dict[str, Any], tuple[str, ...], list[str]]:
    d = problem.d
    parameters: dict[str, Any] = {"d": d, "alpha": problem.n / d, "beta": problem.N / d}
    parameters |= {"alpha0": problem.step_samples / d, "eta_tilde": problem.eta / np.sqrt(problem.N)}
    parameters |= {"lam": problem.ridge * problem.n / problem.N} | _functions(problem)
    words = (
        "α = n/d, β = p/d, α₀ = n₀/d: their α is a sample ratio, not the exponent of the step",
        "their loss is a sum and f has a factor 1/√p, so λ_C = λ·n/N",
        "η = η̃√p is the same number as our η; with α = 1/2 in ours, c = η̃√(N/n)",
    )
    differences = []
    if problem.gradient == "full":
        differences.append(
            "their output is negligible at initialisation, so y stands for the residual: gradient='labels'"
        )
    return parameters, words, differences


def _to_cui(problem: Problem) -> Conversion:
    parameters, words, differences = _giant(problem)
    if problem.readout != "constant":
        differences.append(f"their readout is the constant 1/√p before the step, ours is {problem.readout}")
    return Conversion(problem, "cui2024", parameters, words, tuple(differences))


def _from_cui(
    *,
    d: int,
    alpha: float,
    beta: float,
    alpha0: float,
    eta_tilde: float,
    lam: float,
    activation: Any,
    teacher: Any,
    noise: float = 0.0,
) -> Problem:
    n, N = _count("alpha", alpha, d), _count("beta", beta, d)
    return Problem(
        n=n,
        d=d,
        N=N,
        activation=activation,
        teacher=teacher,
        noise=noise,
        ridge=_positive("lam", lam) * N / n,
        step=Step(constant=eta_tilde * np.sqrt(N / n), exponent=0.5),
        gradient="labels",
        readout="constant",
        n_step=_count("alpha0", alpha0, d),
    )


def _to_dandi(problem: Problem) -> Conversion:
    parameters, words, differences = _giant(problem)
    if problem.readout in _VOCABULARIES:
        parameters["vocabulary"], parameters["weights"] = _VOCABULARIES[problem.readout]
    else:
        differences.append("their readout takes finitely many values; a Gaussian one has to be quantised")
    if problem.step_samples < 10 * problem.d:
        differences.append("their theory takes n₀ ≫ d")
    return Conversion(problem, "dandi2024", parameters, words, tuple(differences))


def _from_dandi(
    *,
    d: int,
    alpha: float,
    beta: float,
    alpha0: float,
    eta_tilde: float,
    lam: float,
    activation: Any,
    teacher: Any,
    noise: float = 0.0,
    vocabulary: Any = (1.0,),
    weights: Any = (1.0,),
) -> Problem:
    given = tuple(sorted(zip(map(float, vocabulary), map(float, weights), strict=False)))
    for readout, (values, shares) in _VOCABULARIES.items():
        if given == tuple(sorted(zip(values, shares, strict=True))):
            problem = _from_cui(
                d=d,
                alpha=alpha,
                beta=beta,
                alpha0=alpha0,
                eta_tilde=eta_tilde,
                lam=lam,
                activation=activation,
                teacher=teacher,
                noise=noise,
            )
            return problem.replace(readout=readout)
    raise InputError(
        f"vocabulary must be (1,) or (-1, 1) with equal weights (readouts this package can draw), got {vocabulary!r} "
        f"with weights {weights!r}"
    )


# ---------------------------------------------------------------------- Mei & Montanari 2022


def _to_mei(problem: Problem) -> Conversion:
    target = problem.target
    parameters: dict[str, Any] = {"d": problem.d, "psi1": problem.N / problem.d, "psi2": problem.n / problem.d}
    parameters |= {"lam": problem.ridge * problem.psi} | _functions(problem)
    words = (
        "ψ₁ = N/d and ψ₂ = n/d (Ba et al. use these letters the other way round)",
        "their penalty is Nλ_MM/d, so λ_MM = λ·d/N",
        f"F₁² = {target.coefficients[1] ** 2:.4g} (linear power of the teacher), F⋆² = {target.nonlinear_power:.4g} "
        f"(nonlinear), τ² = {problem.noise**2:.4g} (noise)",
        "their risk leaves out the label noise: subtract noise² from our test error",
    )
    differences = () if problem.eta == 0 else ("there is no step in their model: it is our problem with Step.none()",)
    return Conversion(problem, "mei2022", parameters, words, differences, noise_in_test_error=False)


def _from_mei(
    *, d: int, psi1: float, psi2: float, lam: float, activation: Any, teacher: Any, noise: float = 0.0
) -> Problem:
    n, N = _count("psi2", psi2, d), _count("psi1", psi1, d)
    return Problem(
        n=n, d=d, N=N, activation=activation, teacher=teacher, noise=noise, ridge=_positive("lam", lam) * N / d
    )


_TO: dict[str, Callable[[Problem], Conversion]] = {
    "moniri2024": _to_moniri,
    "ba2022": _to_ba,
    "cui2024": _to_cui,
    "dandi2024": _to_dandi,
    "mei2022": _to_mei,
}
_FROM: dict[str, Callable[..., Problem]] = {
    "moniri2024": _from_moniri,
    "ba2022": _from_ba,
    "cui2024": _from_cui,
    "dandi2024": _from_dandi,
    "mei2022": _from_mei,
}
