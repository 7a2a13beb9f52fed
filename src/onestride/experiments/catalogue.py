"""The named experiments, one line each, and the main job: those that check the paper. Modules are imported only when they run."""

from __future__ import annotations

from functools import partial
from importlib import import_module

from onestride._errors import InputError, hint, require
from onestride.experiments.outcome import Outcome, Settings
from onestride.simulation.arguments import OnProgress

# name: what it asks. The module is the name with underscores.
QUESTIONS = {
    "rank-one-gradient": "Is the first gradient the rank-one matrix c₁aβᵀ, and for which β?",
    "spectrum": "How many eigenvalues of FFᵀ/n leave the bulk in each window of α, and what are their vectors?",
    "spike-count": "How many eigenvalues have left the bulk at a given α and n, and how does the prefactor of the step move it?",
    "alignment": "What functions of the data are the leading left singular vectors of F?",
    "expansion": "Does the distance between the features F and their expansion F_ℓ vanish as n grows?",
    "equivalence": "Do train and test error change when F is replaced by its expansion F_ℓ, or F₀ by a Gaussian matrix?",
    "errors": "How do train and test error fall with the exponent of the step, beside theory and baselines?",
    "gains": "Does one step lower train and test error by the limits Δ_ℓ and Λ_ℓ of its window?",
    "staircase": "How much of each degree of the teacher has the trained predictor learned, at which α?",
    "linear-part": "What does one step do when the activation or the teacher has no linear part?",
    "double-descent": "Does the peak of the test error at N = n survive one gradient step?",
    "constant-step": "What does a step of constant size buy, and does it learn anything beyond a linear function?",
    "giant-step": "Is the error after a step of order √n known, and does it matter which readout the step starts from?",
    "regularisation": "Which penalty is best after a step of size n^α, and can tuning it replace the step?",
    "activations": "How does the gain depend on the activation, and what happens when c₁ = 0 or c₂ = 0?",
    "beyond-half": "What happens when the step is larger than √n?",
    "finite-size": "Does the distance between simulation and theory vanish as n → ∞?",
    "inputs": "Does theory hold for inputs of other laws, for correlated ones and for a real table?",
    "several-steps": "What do more first-layer steps learn, and can a reused batch beat the information exponent?",
    "label-noise": "How does the gain fall with label noise, and does anything but the variance of the noise matter?",
    "depth": "What of the picture survives in a three-layer network, with a step on one hidden layer or on both?",
    "full-training": "How much of what full training gains does one step reach, on teachers and on real tables?",
    "multi-index": "Of a teacher with two or three directions, which does one step find, and which do more steps?",
    "best-step": "Which step and penalty are best together, is that what is measured, and what does tuning each alone gain?",
    "scaling": "How does the tuned error fall with the samples at fixed d and N, with a step and without?",
}

# those that check the paper: which of its claims, as docs/claims.md numbers them
PAPER = {
    "rank-one-gradient": "1",
    "spectrum": "2",
    "alignment": "3",
    "expansion": "4",
    "equivalence": "5, 6",
    "errors": "7, 8",
    "gains": "7, 8",
    "staircase": "9",
    "linear-part": "10",
}
SCALE = 0.6  # of their own sample sizes, so that all of them together take minutes
WHOLE = ("spectrum",)  # in full: below n = 2,000 its third spike is not clear of the bulk
OVERVIEW = "staircase"  # the experiment whose figure stands first
READS_TABLES = ("inputs", "full-training")  # those that come with scikit-learn


def require_experiment(name: str, *, run: bool = True) -> None:
    """Raise a sentence unless there is such an experiment and, where it is to be run, the libraries it needs are installed."""
    if name not in QUESTIONS:
        raise InputError(f"no experiment is called {name!r}; {hint(name, QUESTIONS)}")
    if run and name in READS_TABLES:
        require("sklearn", extra="estimator", what=f"the experiment {name}")


def run_experiment(name: str, settings: Settings) -> Outcome:
    """Run one experiment by name.

    >>> from onestride.experiments.catalogue import run_experiment
    >>> from onestride.experiments.outcome import Settings
    >>> run_experiment("rank-one-gradient", Settings("small", seeds=2)).name
    'rank-one-gradient'
    """
    require_experiment(name)
    module = import_module(f"onestride.experiments.{name.replace('-', '_')}")
    settings.progress(0.0)
    data = module.measure(settings.of(module.SIZES), settings.progress)
    outcome = Outcome(name, QUESTIONS[name], module.CLAIM, module.judge(data), module.draw(data))
    settings.progress(1.0)
    return outcome


def reproduce(size: str = "standard", *, progress: OnProgress | None = None) -> list[Outcome]:
    """Check every claim of the paper at the sizes called `size`: small, standard or large."""

    def report(done: int, fraction: float) -> None:
        if progress is not None:
            progress(round(100 * (done + fraction)), 100 * len(PAPER))

    return [
        run_experiment(name, Settings(size, scale=1.0 if name in WHOLE else SCALE, report=partial(report, done)))
        for done, name in enumerate(PAPER)
    ]
