"""Starting points: the figures of the paper and one for each experiment, as addresses of the page."""

from __future__ import annotations

from dataclasses import dataclass

from onestride.experiments.catalogue import QUESTIONS

H12 = "teacher=0,1,0.7071067812"  # H₁ + H₂/√2
FOUR = "teacher=0,1,0.7071067812,0.4082482905,0.2041241452"  # degrees 1 … 4 with power 1 each
SHAPE = "phi=0.5 psi=0.3333333333"  # d = n/2, N = 3n/2
WIDE = f"{SHAPE} {H12}"
SQUARE = f"phi=0.5 psi=1 {H12} noise=0 step_samples=4 gradient=labels"
PAPER_2 = f"{WIDE} n=1600 noise=0 gradient=labels"  # the talk's second setting, with ReLU
SPIKES = f"{SQUARE} n=2000 activation=shifted_erf constant=4"


@dataclass(frozen=True)
class Preset:
    """A named address with a question the page answers: `answer` names what it says of whatever the controls show
    (static/presets.js).

    `hint` says what to move for more.
    """

    name: str
    group: str
    question: str
    query: dict[str, str]
    answer: str
    hint: str = ""


_PAPER = {
    "errors, setting 1: H₁ with noise": (
        "How do both errors fall with α when the teacher is linear and the labels are noisy?",
        f"n=1200 {SHAPE} activation=softplus teacher=0,1 noise=1 ridge=0.01 exponent=0.2",
        "error",
        "drag α",
    ),
    "errors, setting 2: H₁ + H₂/√2": (
        "How do both errors fall with α when the teacher has a quadratic part?",
        f"{WIDE} n=1200 activation=softplus noise=0 ridge=0.01 exponent=0.3",
        "error",
        "drag α",
    ),
    "spectrum, window 1": (
        "How many eigenvalues leave the bulk below α = 1/4?",
        f"{SPIKES} exponent=0.15",
        "spikes",
        "move α",
    ),
    "spectrum, window 2": (
        "How many eigenvalues leave the bulk between α = 1/4 and 1/3?",
        f"{SPIKES} exponent=0.29",
        "spikes",
        "move α",
    ),
    "spectrum, window 3": (
        "How many eigenvalues leave the bulk between α = 1/3 and 3/8?",
        f"{SPIKES} exponent=0.355",
        "spikes",
        "move α, or c",
    ),
}
_EXPERIMENTS = {
    "rank-one-gradient": (
        "Along which direction does the gradient push the neurons, and how far is it from the teacher's?",
        PAPER_2,
        "direction",
        "simulate: each neuron moves by c₁η|β|aⱼ",
    ),
    "spectrum": (QUESTIONS["spectrum"], f"{SPIKES} exponent=0.355", "spikes", "move α; simulate for the vectors"),
    "spike-count": (
        QUESTIONS["spike-count"],
        f"{SQUARE} n=2000 activation=relu constant=2 exponent=0.35",
        "spikes",
        "move c and n",
    ),
    "alignment": (QUESTIONS["alignment"], f"{SPIKES} n=1200 exponent=0.29", "vectors", "simulate to see them"),
    "expansion": (
        "How much of the features does their expansion F_ℓ leave out at this n?",
        f"{PAPER_2} exponent=0.29",
        "expansion",
        "play over n",
    ),
    "equivalence": (
        "How far is the error at this n from its limit n → ∞, where a Gaussian matrix stands for F₀?",
        f"{PAPER_2} n=1200 exponent=0.29",
        "limit",
        "play over n",
    ),
    "errors": (
        QUESTIONS["errors"],
        f"{WIDE} n=1200 activation=softplus noise=0 ridge=0.01",
        "error",
        "simulate for the points",
    ),
    "gains": (
        "Does one step lower the test error by the limit of its window?",
        f"{PAPER_2} exponent=0.29",
        "limit",
        "play over n; tick gain",
    ),
    "staircase": (
        QUESTIONS["staircase"],
        "n=1600 phi=0.25 psi=0.5 step_samples=4 activation=shifted_erf "
        f"{FOUR} noise=0 ridge=0.01 gradient=labels exponent=0.4",
        "shares",
        "play over n",
    ),
    "linear-part": (
        "What does one step do when the teacher has no linear part?",
        f"{PAPER_2} teacher=0,0,0.7071067812 noise=0.5 exponent=0.29",
        "gain",
        "raise c⋆₁",
    ),
    "double-descent": (
        QUESTIONS["double-descent"],
        f"n=400 phi=0.5 psi=0.5 {H12} noise=0.5 ridge=0.001 exponent=0.3",
        "gain",
        "set the axis to ψ: at ψ = φ, N = n",
    ),
    "constant-step": (
        QUESTIONS["constant-step"],
        f"{WIDE} n=800 noise=0.5 ridge=0.3 gradient=labels exponent=0",
        "shares",
        "move c",
    ),
    "giant-step": (
        "What does a step of order √n learn, from a constant readout?",
        f"{WIDE} n=400 noise=0.5 gradient=labels step_samples=4 readout=constant exponent=0.5",
        "shares",
        "change the readout under More",
    ),
    "regularisation": (
        QUESTIONS["regularisation"],
        f"{WIDE} n=500 activation=softplus noise=0.5 exponent=0.4",
        "best",
        "move λ",
    ),
    "activations": (
        "How does the gain depend on the activation?",
        f"{WIDE} noise=0.5 exponent=0.4",
        "gain",
        "change the activation",
    ),
    "beyond-half": (
        "What has a step of size √n learned, which is beyond every window?",
        f"{WIDE} noise=0.5 exponent=0.5",
        "shares",
        "type a larger α",
    ),
    "finite-size": (
        "How far is theory at this n from its limit n → ∞?",
        f"{SHAPE} teacher=0,1,0.25 noise=0.3 constant=2",
        "limit",
        "move n and simulate",
    ),
    "inputs": (
        "What does one step gain on correlated inputs?",
        f"{WIDE} activation=softplus noise=0.5 inputs=ar1",
        "gain",
        "change the law of x",
    ),
    "several-steps": (
        "What do four steps learn, and are they stable?",
        "n=1600 phi=0.125 psi=0.5 activation=tanh teacher=0,1 noise=0 steps=4 exponent=0",
        "stable",
        "move T, and c beyond the bound",
    ),
    "label-noise": (
        "How does the gain fall with label noise?",
        f"{WIDE} n=500 activation=softplus noise=1 exponent=0.4",
        "gain",
        "set the axis to σ_ε",
    ),
    "depth": (
        "What does the step gain in a network of two layers?",
        f"n=500 phi=0.5 psi=0.5 activation=softplus {H12} noise=0.5",
        "gain",
        "three layers: onestride experiment depth",
    ),
    "full-training": (
        "What has one step learned of what there is to learn?",
        "n=600 phi=0.5 psi=0.3 activation=gelu teacher=0,0.7071067812,0.5 noise=0.3 exponent=0.5",
        "linear",
        "full training: onestride experiment full-training",
    ),
    "multi-index": (
        "How much of a teacher with two directions does one step learn?",
        f"n=1600 phi=0.125 psi=0.5 activation=elu {H12} noise=0 gradient=labels exponent=0.5 directions=2",
        "shares",
        "change the directions and how they make a label",
    ),
    "best-step": (
        "Which step and penalty are best together?",
        f"{WIDE} n=400 noise=0.5 exponent=0.3",
        "best",
        "click the star of the map",
    ),
    "scaling": (
        "How does the error fall with the samples, with the step and without?",
        f"n=600 phi=0.1 psi=0.2 {H12} noise=0.5 exponent=0.3",
        "error",
        "set the axis to n, or move n",
    ),
}


def _query(words: str) -> dict[str, str]:
    """A later word wins over an earlier one with the same name."""
    return dict(word.split("=", 1) for word in words.split())


PRESETS = tuple(
    Preset(name, group, question, _query(words), answer, hint)
    for group, presets in (("The paper", _PAPER), ("Experiments", _EXPERIMENTS))
    for name, (question, words, answer, hint) in presets.items()
)


def addresses(page: str = "http://127.0.0.1:8750/") -> dict[str, str]:
    """Where each experiment's problem is on the page, while `onestride explore` runs at its default port."""
    from urllib.parse import urlencode

    return {preset.name: f"{page}?{urlencode(preset.query)}" for preset in PRESETS if preset.group == "Experiments"}
