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

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from onestride._errors import InputError, did_you_mean, hint, quoted
from onestride.problem import EXTENSIONS, Problem, Step, expect

Parameters = dict[str, Any]


@dataclass(frozen=True, repr=False)
class Conversion:
    """A problem in a paper's own parameters, with what changed and what could not be carried over in words.

    `parameters` are the arguments of `problem_from(paper, …)`, which gives the problem back.

    >>> problem = one.conventions.convert(one.Problem(n=2000, d=1000, N=1000, step=one.Step()), "cui2024").problem
    >>> problem.n
    2000
    """

    problem: Problem
    paper: str
    parameters: Parameters
    words: tuple[str, ...]
    differences: tuple[str, ...]
    noise_in_test_error: bool = True

    def test_error(self, ours: float) -> float:
        """A test error of ours in the paper's definition, with or without the label noise."""
        return ours if self.noise_in_test_error else ours - self.problem.noise**2

    def __repr__(self) -> str:
        lines = [_PAPERS[self.paper].title]
        lines += [f"  {name} = {_show(value)}" for name, value in self.parameters.items()]
        lines += [f"  {sentence}" for sentence in self.words]
        lines += [f"  not the same: {sentence}" for sentence in self.differences]
        return "\n".join(lines)


def _show(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def convert(problem: Problem, paper: str) -> Conversion:
    """`problem` in the parameters of `paper` (one of `PAPERS`).

    >>> converted = one.conventions.convert(one.Problem(n=2000, d=1000, N=1000, step=one.Step()), "cui2024")
    >>> converted.parameters["alpha"], converted.parameters["beta"]
    (2.0, 1.0)
    """
    expect(problem)
    changed = {name: getattr(problem, name) for name in EXTENSIONS}
    changed = {k: v for k, v in changed.items() if v != Problem.model_fields[k].default}
    if changed:
        given = ", ".join(f"{k}={v!r}" for k, v in changed.items())
        raise InputError(f"the papers have Gaussian inputs, one step and one direction of the teacher, got {given}")
    entry = _known(paper)
    parameters = {name: read(problem) for name, read in entry.parameters.items()}
    powers = {"linear": problem.target.coefficients[1] ** 2, "noise": problem.noise**2}
    return Conversion(
        problem,
        paper,
        {k: v for k, v in parameters.items() if v is not None or entry.optional.get(k) is None},
        tuple(sentence.format(p=problem, **powers) for sentence in entry.words),
        tuple(sentence.format(p=problem) for differs, sentence in entry.differences if differs(problem)),
        entry.noise_in_test_error,
    )


def problem_from(paper: str, **parameters: Any) -> Problem:
    """The problem that a paper describes by its own parameters; `convert(…).parameters` shows their names.

    >>> theirs = {"d": 1000, "alpha": 2, "beta": 1, "alpha0": 20, "eta_tilde": 3, "lam": 0.1, "activation": "tanh", "teacher": "sin"}
    >>> one.conventions.problem_from("cui2024", **theirs).n
    2000
    """
    entry = _known(paper)
    required = [name for name in entry.parameters if name not in entry.optional]
    names = [*required, *entry.optional]
    unknown = [name for name in parameters if name not in names]
    if unknown:
        raise InputError(f"{unknown[0]} is not a parameter of {paper}; {hint(unknown[0], names)}")
    missing = [name for name in required if name not in parameters]
    if missing:
        raise InputError(f"{', '.join(missing)} missing: {paper} needs {', '.join(required)}")
    given = entry.optional | parameters
    fields = {name: given[name] for name in ("d", "activation", "teacher", "noise")}
    return Problem(**fields | entry.fields(given))


def _known(paper: str) -> _Paper:
    if paper not in PAPERS:
        sentence = f"paper must be one of {', '.join(PAPERS)}, got {quoted(paper)}"
        raise InputError("; ".join(filter(None, (sentence, did_you_mean(paper, PAPERS)))))
    return _PAPERS[paper]


# ---------------------------------------------------------------------- from a paper's parameters to our fields


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return np.nan


def _count(given: Parameters, name: str) -> int:
    """A ratio times d as a whole number of samples or neurons."""
    value = _number(given[name]) * _above_0(given, "d")
    if not (np.isfinite(value) and value >= 0.5):
        raise InputError(f"{name} must be a number above 0 with {name}·d at least 1, got {quoted(given[name])}")
    return max(1, round(value))


def _above_0(given: Parameters, name: str) -> float:
    number = _number(given[name])
    if not (np.isfinite(number) and number > 0):
        raise InputError(f"{name} must be a finite number above 0, got {quoted(given[name])}")
    return number


def _size(given: Parameters, name: str) -> float:
    """The size of a step."""
    number = _number(given[name])
    if not (np.isfinite(number) and number >= 0):
        raise InputError(f"{name} must be a finite number, 0 or more, got {quoted(given[name])}")
    return number


def _from_cui(given: Parameters) -> Parameters:
    n, N = _count(given, "alpha"), _count(given, "beta")
    step = Step(constant=_size(given, "eta_tilde") * np.sqrt(N / n), exponent=0.5)
    fields = {"n": n, "N": N, "ridge": _above_0(given, "lam") * N / n, "step": step, "n_step": _count(given, "alpha0")}
    return fields | {"gradient": "labels", "readout": "constant"}


def _from_dandi(given: Parameters) -> Parameters:
    drawn: list[Any] = []
    with suppress(TypeError, ValueError, OverflowError):
        drawn = sorted(zip(map(float, given["vocabulary"]), map(float, given["weights"]), strict=True))
    for readout, law in _VOCABULARIES.items():
        if drawn == sorted(zip(*law, strict=True)):
            return _from_cui(given) | {"readout": readout}
    raise InputError(
        f"vocabulary must be (1,) or (-1, 1) with equal weights (readouts this package can draw), got "
        f"{quoted(given['vocabulary'])} with weights {quoted(given['weights'])}"
    )


def _from_mei(given: Parameters) -> Parameters:
    n, N = _count(given, "psi2"), _count(given, "psi1")
    return {"n": n, "N": N, "ridge": _above_0(given, "lam") * N / _number(given["d"])}


# ---------------------------------------------------------------------- the table


@dataclass(frozen=True)
class _Paper:
    """One paper: `parameters` says how each is read off a problem and `fields` gives the fields of `Problem` back;
    `optional` are the parameters that may be left out, with their values then; each of the `differences` is said of a
    problem for which its test is true.
    """

    title: str
    parameters: dict[str, Callable[[Problem], Any]]
    fields: Callable[[Parameters], Parameters]
    words: tuple[str, ...]
    differences: tuple[tuple[Callable[[Problem], bool], str], ...]
    optional: Parameters
    noise_in_test_error: bool = True


_OURS = {name: entry.default for name, entry in Problem.model_fields.items() if name not in ("step", *EXTENSIONS)}
_FUNCTIONS = {name: attrgetter(name) for name in ("activation", "teacher", "noise")}
_VOCABULARIES = {"constant": ((1.0,), (1.0,)), "rademacher": ((-1.0, 1.0), (0.5, 0.5))}
_GIANT: dict[str, Callable[[Problem], Any]] = {
    "d": lambda p: p.d,
    "alpha": lambda p: p.n / p.d,
    "beta": lambda p: p.N / p.d,
    "alpha0": lambda p: p.step_samples / p.d,
    "eta_tilde": lambda p: p.eta / np.sqrt(p.N),
    "lam": lambda p: p.ridge * p.n / p.N,
} | _FUNCTIONS
_LAW: dict[str, Callable[[Problem], Any]] = {
    "vocabulary": lambda p: _VOCABULARIES.get(p.readout, (None, None))[0],
    "weights": lambda p: _VOCABULARIES.get(p.readout, (None, None))[1],
}
_GIANT_WORDS = (
    "α = n/d, β = p/d, α₀ = n₀/d: their α is a sample ratio, not the exponent of the step",
    "their loss is a sum and f has a factor 1/√p, so λ_C = λ·n/N",
    "η = η̃√p is the same number as our η; with α = 1/2 in ours, c = η̃√(N/n)",
)
_NO_NOISE = "their risk leaves out the label noise: subtract noise² from our test error"


def _full(p: Problem) -> bool:
    return p.gradient == "full"


_CENTRED = (lambda p: not p.centred, "problem_from gives features of an activation with mean 0, centred=True")
_ROWS = (lambda p: p.weights != "sphere", "problem_from gives rows of W₀ on the unit sphere, weights='sphere'")
_N_SAMPLES = (lambda p: p.step_samples != p.n, "they use n samples for the step as well")
_SMALL = (_full, "their output is negligible at initialisation, so y stands for the residual: gradient='labels'")

_PAPERS = {
    "moniri2024": _Paper(
        "Moniri et al. 2024 (the scaling of this package)",
        {
            name: attrgetter({"c": "step.constant", "alpha": "step.exponent"}.get(name, name))
            for name in (*_OURS, "c", "alpha")
        },
        lambda q: {name: q[name] for name in _OURS} | {"step": Step(constant=q["c"], exponent=q["alpha"])},
        ("φ = d/n = {p.phi:.4g}, ψ = d/N = {p.psi:.4g}, η = c·n^α = {p.eta:.4g}",),
        (
            (_full, "their theory replaces the residual y − f₀ in the gradient by y; gradient='full' keeps f₀"),
            (
                lambda p: p.readout != "gaussian" or p.weights != "sphere",
                "they take a Gaussian readout and rows of W₀ on the unit sphere",
            ),
            _N_SAMPLES,
        ),
        {"c": 0.0, "alpha": 0.0} | {name: default for name, default in _OURS.items() if name not in ("n", "d", "N")},
    ),
    "ba2022": _Paper(
        "Ba et al. 2022 (arXiv 2205.01445)",
        {"d": lambda p: p.d, "psi1": lambda p: p.n / p.d, "psi2": lambda p: p.N / p.d}
        | {"eta": lambda p: p.eta, "lam": lambda p: p.ridge}
        | _FUNCTIONS,
        lambda q: (
            {"n": _count(q, "psi1"), "N": _count(q, "psi2"), "ridge": _above_0(q, "lam")}
            | {"step": Step(constant=_size(q, "eta"))}
            | {"gradient": "labels", "weights": "gaussian"}
        ),
        (
            "ψ₁ = n/d and ψ₂ = N/d: the inverses of our φ and of our ψ",
            "f has a factor 1/√N and the update is η√N·G₀, so ηG and λ are the same numbers as ours",
            _NO_NOISE,
        ),
        (
            (_full, "their output is O(1/√N) at initialisation, so y stands for the residual: gradient='labels'"),
            (
                lambda p: p.weights == "sphere",
                "their rows of W₀ are Gaussian with variance 1/d, ours lie on the sphere; equal as d → ∞",
            ),
            (lambda p: p.readout != "gaussian", "their readout is N(0, 1/N)"),
            _N_SAMPLES,
            _CENTRED,
        ),
        {"noise": 0.0},
        noise_in_test_error=False,
    ),
    "cui2024": _Paper(
        "Cui et al. 2024 (arXiv 2402.04980)",
        _GIANT,
        _from_cui,
        _GIANT_WORDS,
        (
            _SMALL,
            (
                lambda p: p.readout != "constant",
                "their readout is the constant 1/√p before the step, ours is {p.readout}",
            ),
            _ROWS,
            _CENTRED,
        ),
        {"noise": 0.0},
    ),
    "dandi2024": _Paper(
        "Dandi et al. 2024 (arXiv 2410.18938)",
        _GIANT | _LAW,
        _from_dandi,
        _GIANT_WORDS,
        (
            _SMALL,
            (
                lambda p: p.readout not in _VOCABULARIES,
                "their readout takes finitely many values; a Gaussian one has to be quantised",
            ),
            (lambda p: p.step_samples < 10 * p.d, "their theory takes n₀ ≫ d"),
            _ROWS,
            _CENTRED,
        ),
        {"noise": 0.0, "vocabulary": (1.0,), "weights": (1.0,)},
    ),
    "mei2022": _Paper(
        "Mei & Montanari 2022 (arXiv 1908.05355)",
        {"d": lambda p: p.d, "psi1": lambda p: p.N / p.d, "psi2": lambda p: p.n / p.d, "lam": lambda p: p.ridge * p.psi}
        | _FUNCTIONS,
        _from_mei,
        (
            "ψ₁ = N/d and ψ₂ = n/d (Ba et al. use these letters the other way round)",
            "their penalty is Nλ_MM/d, so λ_MM = λ·d/N",
            "F₁² = {linear:.4g} (linear power of the teacher), F⋆² = {p.target.nonlinear_power:.4g} (nonlinear), "
            "τ² = {noise:.4g} (noise)",
            _NO_NOISE,
        ),
        (
            (lambda p: p.eta != 0, "there is no step in their model: it is our problem with Step.none()"),
            _ROWS,
            _CENTRED,
        ),
        {"noise": 0.0},
        noise_in_test_error=False,
    ),
}
PAPERS = tuple(_PAPERS)
