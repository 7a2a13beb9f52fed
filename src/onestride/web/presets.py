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
    """A named address. `beyond` says what of the experiment the page cannot vary."""

    name: str
    group: str
    question: str
    query: dict[str, str]
    beyond: str = ""


_PAPER = {
    "errors, setting 1: H₁ with noise": (
        "How do both errors fall with α when the teacher is linear and the labels are noisy?",
        f"n=1200 {SHAPE} activation=softplus teacher=0,1 noise=1 ridge=0.01 exponent=0.2",
    ),
    "errors, setting 2: H₁ + H₂/√2": (
        "How do both errors fall with α when the teacher has a quadratic part?",
        f"{WIDE} n=1200 activation=softplus noise=0 ridge=0.01 exponent=0.3",
    ),
    "spectrum, window 1": ("One spike: α = 0.15, below 1/4.", f"{SPIKES} exponent=0.15"),
    "spectrum, window 2": ("Two spikes: α = 0.29, between 1/4 and 1/3.", f"{SPIKES} exponent=0.29"),
    "spectrum, window 3": ("Three spikes: α = 0.355, between 1/3 and 3/8.", f"{SPIKES} exponent=0.355"),
}
_EXPERIMENTS = {
    "rank-one-gradient": (PAPER_2, "the gradient matrix itself is not drawn here"),
    "spectrum": (f"{SPIKES} exponent=0.355", ""),
    "spike-count": (f"{SQUARE} n=2000 activation=relu constant=2 exponent=0.35", ""),
    "alignment": (f"{SPIKES} n=1200 exponent=0.29", "singular vectors are not drawn here"),
    "expansion": (f"{PAPER_2} exponent=0.29", "the expanded features are not drawn here"),
    "equivalence": (f"{PAPER_2} n=1200 exponent=0.29", "the expanded features are not drawn here"),
    "errors": (f"{WIDE} n=1200 activation=softplus noise=0 ridge=0.01", ""),
    "gains": (f"{PAPER_2} exponent=0.29", ""),
    "staircase": (
        "n=1600 phi=0.25 psi=0.5 step_samples=4 activation=shifted_erf "
        f"{FOUR} noise=0 ridge=0.01 gradient=labels exponent=0.4",
        "",
    ),
    "linear-part": (f"{PAPER_2} teacher=0,0,0.7071067812 noise=0.5 exponent=0.29", ""),
    "double-descent": (
        f"n=400 phi=0.5 psi=0.5 {H12} noise=0.5 ridge=0.001 exponent=0.3",
        "move ψ through φ: there N = n",
    ),
    "constant-step": (f"{WIDE} n=800 noise=0.5 ridge=0.3 gradient=labels exponent=0", ""),
    "giant-step": (f"{WIDE} n=400 noise=0.5 gradient=labels step_samples=4 readout=constant exponent=0.5", ""),
    "regularisation": (f"{WIDE} n=500 activation=softplus noise=0.5 exponent=0.4", "move λ"),
    "activations": (f"{WIDE} noise=0.5 exponent=0.4", "change the activation"),
    "beyond-half": (f"{WIDE} noise=0.5 exponent=0.5", "no theory beyond α = 1/2; the page ends there"),
    "finite-size": (f"{SHAPE} teacher=0,1,0.25 noise=0.3 constant=2", "move n and simulate"),
    "inputs": (f"{WIDE} activation=softplus noise=0.5 inputs=ar1", "change the law of x"),
    "several-steps": (
        "n=1600 phi=0.125 psi=0.5 activation=tanh teacher=0,1 noise=0 steps=4 exponent=0",
        "move T, and c beyond the stability bound",
    ),
    "label-noise": (f"{WIDE} n=500 activation=softplus noise=1 exponent=0.4", "move the noise"),
    "depth": (f"n=500 phi=0.5 psi=0.5 activation=softplus {H12} noise=0.5", "here with two layers only"),
    "full-training": (
        "n=600 phi=0.5 psi=0.3 activation=gelu teacher=0,0.7071067812,0.5 noise=0.3 exponent=0.5",
        "here after one step only",
    ),
    "multi-index": (
        f"n=1600 phi=0.125 psi=0.5 activation=elu {H12} noise=0 gradient=labels exponent=0.5 directions=2",
        "after one step; change the directions and how they make a label",
    ),
    "best-step": (f"{WIDE} n=400 noise=0.5 exponent=0.3", "move α and λ"),
    "scaling": (f"n=600 phi=0.1 psi=0.2 {H12} noise=0.5 exponent=0.3", "move n"),
}


def _query(words: str) -> dict[str, str]:
    """A later word wins over an earlier one with the same name."""
    return dict(word.split("=", 1) for word in words.split())


PRESETS = (
    *(Preset(name, "The paper", question, _query(words)) for name, (question, words) in _PAPER.items()),
    *(Preset(name, "Experiments", QUESTIONS[name], _query(q), beyond) for name, (q, beyond) in _EXPERIMENTS.items()),
)


def addresses(page: str = "http://127.0.0.1:8750/") -> dict[str, str]:
    """Where each experiment's problem is on the page, while `onestride explore` runs at its default port."""
    from urllib.parse import urlencode

    return {preset.name: f"{page}?{urlencode(preset.query)}" for preset in PRESETS if preset.group == "Experiments"}
