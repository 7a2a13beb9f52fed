"""Starting points: the figures of the paper and one for each experiment, as addresses of the page."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from onestride.experiments.catalogue import QUESTIONS

H12 = "0,1,0.7071067812"  # H₁ + H₂/√2
FOUR = "0,1,0.7071067812,0.4082482905,0.2041241452"  # degrees 1 … 4 with power 1 each
WIDE = {"phi": "0.5", "psi": "0.3333333333", "teacher": H12}  # d = n/2, N = 3n/2
SQUARE = {"phi": "0.5", "psi": "1", "teacher": H12, "noise": "0", "step_samples": "4", "gradient": "labels"}
PAPER_2 = WIDE | {"n": "1600", "noise": "0", "gradient": "labels"}  # the talk's second setting, with ReLU
SPIKES = SQUARE | {"n": "2000", "activation": "shifted_erf", "constant": "4"}


@dataclass(frozen=True)
class Preset:
    """A named address. `beyond` says what of the experiment the page cannot vary."""

    name: str
    group: str
    question: str
    query: dict[str, str]
    beyond: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


def _paper(name: str, question: str, query: dict[str, str]) -> Preset:
    return Preset(name, "The paper", question, query)


PAPER = (
    _paper(
        "errors, setting 1: H₁ with noise",
        "How do both errors fall with α when the teacher is linear and the labels are noisy?",
        {"n": "1200", "phi": "0.5", "psi": "0.3333333333", "activation": "softplus", "teacher": "0,1"}
        | {"noise": "1", "ridge": "0.01", "exponent": "0.2"},
    ),
    _paper(
        "errors, setting 2: H₁ + H₂/√2",
        "How do both errors fall with α when the teacher has a quadratic part?",
        WIDE | {"n": "1200", "activation": "softplus", "noise": "0", "ridge": "0.01", "exponent": "0.3"},
    ),
    _paper("spectrum, window 1", "One spike: α = 0.15, below 1/4.", SPIKES | {"exponent": "0.15"}),
    _paper("spectrum, window 2", "Two spikes: α = 0.29, between 1/4 and 1/3.", SPIKES | {"exponent": "0.29"}),
    _paper("spectrum, window 3", "Three spikes: α = 0.355, between 1/3 and 3/8.", SPIKES | {"exponent": "0.355"}),
)

_EXPERIMENTS: dict[str, tuple[dict[str, str], str]] = {
    "rank-one-gradient": (PAPER_2, "the gradient matrix itself is not drawn here"),
    "spectrum": (SPIKES | {"exponent": "0.355"}, ""),
    "spike-count": (SQUARE | {"n": "2000", "activation": "relu", "constant": "2", "exponent": "0.35"}, ""),
    "alignment": (SPIKES | {"n": "1200", "exponent": "0.29"}, "singular vectors are not drawn here"),
    "expansion": (PAPER_2 | {"exponent": "0.29"}, "the expanded features are not drawn here"),
    "equivalence": (PAPER_2 | {"n": "1200", "exponent": "0.29"}, "the expanded features are not drawn here"),
    "errors": (WIDE | {"n": "1200", "activation": "softplus", "noise": "0", "ridge": "0.01"}, ""),
    "gains": (PAPER_2 | {"exponent": "0.29"}, ""),
    "staircase": (
        {"n": "1600", "phi": "0.25", "psi": "0.5", "step_samples": "4", "activation": "shifted_erf", "teacher": FOUR}
        | {"noise": "0", "ridge": "0.01", "gradient": "labels", "exponent": "0.4"},
        "",
    ),
    "linear-part": (PAPER_2 | {"teacher": "0,0,0.7071067812", "noise": "0.5", "exponent": "0.29"}, ""),
    "double-descent": (
        {"n": "400", "phi": "0.5", "psi": "0.5", "teacher": H12, "noise": "0.5", "ridge": "0.001", "exponent": "0.3"},
        "move ψ through φ: there N = n",
    ),
    "constant-step": (WIDE | {"n": "800", "noise": "0.5", "ridge": "0.3", "gradient": "labels", "exponent": "0"}, ""),
    "giant-step": (
        WIDE
        | {"n": "400", "noise": "0.5", "gradient": "labels", "step_samples": "4"}
        | {"readout": "constant", "exponent": "0.5"},
        "",
    ),
    "regularisation": (WIDE | {"n": "500", "activation": "softplus", "noise": "0.5", "exponent": "0.4"}, "move λ"),
    "activations": (WIDE | {"noise": "0.5", "exponent": "0.4"}, "change the activation"),
    "beyond-half": (WIDE | {"noise": "0.5", "exponent": "0.5"}, "no theory beyond α = 1/2; the page ends there"),
    "finite-size": (
        {"phi": "0.5", "psi": "0.3333333333", "teacher": "0,1,0.25", "noise": "0.3", "constant": "2"},
        "move n and simulate",
    ),
    "inputs": (WIDE | {"activation": "softplus", "noise": "0.5"}, "here with Gaussian inputs only"),
    "several-steps": (
        {"n": "1600", "phi": "0.125", "psi": "0.5", "activation": "tanh", "teacher": "0,1", "noise": "0"}
        | {"gradient": "labels", "exponent": "0.5"},
        "here after the first step only",
    ),
    "label-noise": (WIDE | {"n": "500", "activation": "softplus", "noise": "1", "exponent": "0.4"}, "move the noise"),
    "depth": (
        {"n": "500", "phi": "0.5", "psi": "0.5", "activation": "softplus", "teacher": H12, "noise": "0.5"},
        "here with two layers only",
    ),
    "full-training": (
        {
            "n": "600",
            "phi": "0.5",
            "psi": "0.3",
            "activation": "gelu",
            "teacher": "0,0.7071067812,0.5",
            "noise": "0.3",
        }
        | {"exponent": "0.5"},
        "here after one step only",
    ),
    "multi-index": (
        {"n": "1600", "phi": "0.125", "psi": "0.5", "activation": "elu", "teacher": H12, "noise": "0"}
        | {"gradient": "labels", "exponent": "0.5"},
        "here with one direction only",
    ),
}
PRESETS = (
    *PAPER,
    *(Preset(name, "Experiments", QUESTIONS[name], query, beyond) for name, (query, beyond) in _EXPERIMENTS.items()),
)
