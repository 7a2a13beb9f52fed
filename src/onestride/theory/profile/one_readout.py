"""What the step remembers when all readouts are equal: one matrix has moved every neuron.

With a_j = 1/√N the step takes w_j to Tw_j, T = 1 + ντM, τ = η/√N, besides its rank-one part and the noise of higher order. Features
then see x as if inputs had the covariance S = T² + noise: M's action on few directions adds up over the neurons instead of averaging out, and
what `memory` has to first order in ντ counts to all orders. On nodes p of M's law that t̂ and e see together, S_p is the G of `strength`:

    rows       a row is as long as s, s² = xᵀSx/tr S, of variance 2 S₂/d, S₂ = E[S²]/E[S]²; the unlearned coordinate ζ = e·x of the teacher has
               E[ζ² | s] = 1 + (s² − 1) κ/S₂, κ = eᵀSe/E[S]
    turned     given ω, its weight along t̂, a neuron's others have mean (St̂)_⊥ω/t̂ᵀSt̂: a direction that hangs together with the rows'
               coordinate t̂·x and with e (`coupled`); sector 1 counts it that much too much
    form       w_jᵀSw_j varies from neuron to neuron by 2 Var S/d, and neurons grow along themselves with it; degree two knows it, too, and sees xᵀSx with it
    length     the spread of a neuron's length by ℓ·w goes with its weights along Tℓ, ℓ in the plane of t̂ and e

and the mean residual, the neuron's own gradient and that of degree three as in `memory`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onestride._numerics import Array, Float, gauss_density
from onestride.functions import Function
from onestride.problem import Problem
from onestride.theory.profile.coupled import Blocks
from onestride.theory.profile.gradient_noise import GradientNoise, SpectralNodes, gradient_noise
from onestride.theory.profile.harmonics import multiplicity, radius_rule
from onestride.theory.profile.memory import Kinds, cubic, length, of_the_batch, slope_along_M
from onestride.theory.profile.neurons import LearnedDirection
from onestride.theory.profile.sectors import Coupled, Means, Sector, columns
from onestride.theory.profile.strength import Strength

_NODES = 48  # of a law that few directions and the bulk have in common: errors to 1e-3
_MEANT = 3e-5  # columns of the mean features over the largest: errors change by 3e-6


@dataclass(frozen=True)
class Together:
    """T and S on the nodes that the bulk, t̂, e and u₂ … u_k see."""

    law: Strength
    nodes: SpectralNodes
    T: Float[Array, "p"]
    S: Float[Array, "p"]

    @property
    def mean(self) -> float:
        """E[S]."""
        return float(self.nodes.weight @ self.S)

    @property
    def second(self) -> float:
        """S₂."""
        return float(self.nodes.weight @ self.S**2) / self.mean**2

    @property
    def along_learned(self) -> float:
        """t̂ᵀSt̂."""
        return float(np.sum(self.on(self.S, 0) * self.on(np.ones_like(self.S), 0)))

    def on(self, f: Array, which: int) -> Float[Array, "p c"]:
        """f(M) applied to t̂ (0), e (1) and so on, on every node."""
        return f[:, None] * self.nodes.frame[:, :, which]

    def rows(self, D: float, count: int) -> tuple[Float[Array, "s"], Float[Array, "s"]]:
        """√D s and probabilities."""
        r, w = radius_rule(D / self.second, count)
        return np.sqrt(self.second) * r, w

    def unlearned(self, r: Float[Array, "i"], D: float) -> tuple[Float[Array, "i"], float]:
        """Length of the teacher's unlearned coordinates given √D s, and the dimension of the sphere they lie on, which leaves ζ its fourth moment."""
        frame = self.nodes.frame[:, :, 1:]
        along = (
            float(np.einsum("p,pca,pca->", self.S, frame, frame)) / frame.shape[2] / self.mean
        )  # κ, of several e their mean
        sphere = max(D * self.second / along**2, 4.0)
        return np.sqrt(sphere * np.maximum(1 + (r**2 / D - 1) * along / self.second, 0.05)), sphere


def _seen_together(noise: GradientNoise, tilt: float, overlap: float) -> SpectralNodes:
    """The bulk's law on nodes that t̂, e and u₂ … u_k see, too: the columns of its frame, in this order."""
    seen = np.zeros((noise.x.size, *2 * [2 + noise.star.shape[1]]), complex)
    seen[:, 0, 0], seen[:, 1, 1], seen[:, 2:, 2:] = noise.bulk, noise.along(tilt), noise.unlearned(tilt)
    seen[:, 1, 2:] = seen[:, 2:, 1] = noise.between(tilt, overlap)
    law = noise.nodes(seen, _NODES)
    weight = np.maximum((law.frame[:, :, 0] ** 2).sum(1), 1e-12)
    power = law.power * (noise.power * weight.sum() / (weight @ law.power))
    return SpectralNodes(law.eigenvalue, weight / weight.sum(), power, law.frame[:, :, 1:])


def together_of(problem: Problem, learned: LearnedDirection, law: Strength | None) -> Together | None:
    """The one matrix that moves all neurons; None where it is not one, where there is no e for it to turn, or where degree two is learned,
    which tells |x| and xᵀSx apart.
    """
    if law is None or law.learned is None or problem.readout != "constant" or not problem.law.normal:
        return None
    learns = multiplicity(problem.d - 1, 2) <= max(problem.n, problem.N)
    if learns or learned.overlap**2 > 1 - 1e-9:
        return None
    nodes = _seen_together(gradient_noise(problem), learned.tilt, learned.overlap)
    T = 1 + law.quadratic * problem.eta / np.sqrt(problem.N) * (nodes.eigenvalue + law.shift)
    return Together(law, nodes, T, law.on(nodes, np.ones(1))[0] / (1 - 1 / problem.d))


def remembered_together(
    problem: Problem,
    learned: LearnedDirection,
    together: Together,
    kinds: Kinds,
    rows: tuple[Float[Array, "i"], Float[Array, "i"]],
    parts: Float[Array, "parts k i"],
    teacher: list[Array],
    linear: Sector,
) -> tuple[Means, Sector]:
    """The special sector with the directions that hang together, and sector 1, which is in few columns already; rows: √D s and probabilities."""
    (r, w), (X, Y), share = rows, linear.factors, together.nodes.weight
    one, tau = np.ones_like(together.S), problem.eta / np.sqrt(problem.N)
    u, taught = together.on(one, 0), {f"e{a}": together.on(one, 1 + a) for a in range(problem.directions)}
    carried = {"turned": together.on(together.S, 0), "t": together.on(together.T, 0), "e": together.on(together.T, 1)}
    along = {name: float(np.sum(u * x)) for name, x in carried.items()}  # t̂ᵀSt̂, t̂ᵀTt̂ and t̂ᵀTe
    every = [u, *(x - along[name] * u for name, x in carried.items()), *taught.values()]
    mass = np.array([[(a * b).sum(1) for b in every] for a in every])
    seen = [parts[0], *_lengthened(problem, together, kinds, parts, r, linear.dim)]
    stacked, B, *_ = columns(np.concatenate(seen), w, np.tile(kinds.weight, len(seen)), least=_MEANT)
    b, e, form = np.split(stacked, len(seen))
    bases = {"f": np.vstack([B, teacher[0]]), "memory": B[:0]} | dict.fromkeys(carried, Y)
    bases |= {name: np.vstack([Y, h]) for name, h in zip(taught, teacher[1].T, strict=True)}
    blocks = Blocks(bases, kinds.A.size)
    per_weight, spread = X / np.sqrt(kinds.v)[:, None], np.sqrt(kinds.along)[:, None]
    own = per_weight * np.sqrt(kinds.aside / linear.dim)[:, None]  # times what is new for each neuron, of variance 1
    third = tau * cubic(problem, learned, kinds.omega)[1]
    drift = blocks.vector(turned=per_weight * (kinds.omega[:, None] / spread))
    drift += blocks.vector(**{name: per_weight * x[:, None] for name, x in zip(taught, third.T, strict=True)})
    cases, lengthened, _ = of_the_batch(problem, together.law, kinds, e)
    independent, less = [blocks.vector(f=lengthened), blocks.vector(f=form)], [blocks.vector(turned=own / spread)]
    lengths = length(problem, learned, literal=True)
    if lengths.across > 0:
        with_t = lengths.along * along["t"] + lengths.on_e * along["e"]
        size = np.sqrt(np.maximum(lengths.along**2 + lengths.across**2 - with_t**2 / kinds.along, 1e-300))[:, None]
        towards = {"t": lengths.along, "e": lengths.on_e, "turned": -with_t / spread**2}
        pulled = blocks.vector(**{name: own * x / size for name, x in towards.items()})
        moved = e * size * (kinds.A / np.sqrt(float(problem.N) * problem.d) / kinds.aside)[:, None]
        independent.append(blocks.vector(f=moved) + pulled)
        less.append(pulled)
    norm = share * together.T**2 / together.mean
    means = Means(
        tuple((p, blocks.vector(f=b + mean) + drift) for p, mean, _ in cases),
        tuple(independent),
        np.concatenate([np.eye(len(B))[-1] * (name in ("f", *taught)) for name, B in bases.items() if len(B)]),
        coupled=Coupled(1, mass, norm, tuple(bases.values()), tuple(less)),
    )
    strength = np.tile(together.S / together.mean, (kinds.A.size, 1))
    frame = np.sqrt(share)[:, None, None] * np.eye(problem.directions)  # `coupled` knows better
    return means, Sector(linear.dim, linear.K, strength, share, teacher[1], strength, frame)


def _lengthened(
    problem: Problem,
    together: Together,
    kinds: Kinds,
    parts: Float[Array, "parts k i"],
    r: Float[Array, "i"],
    D: float,
) -> list[Float[Array, "k i"]]:
    """What a longer neuron answers, ∂b/∂log v; and what is new for each by w_jᵀSw_j, and by its own growth along that.

    With h = σ' − c₁ − 2c₂g, N_j = (τ/n) Σ r_i h(w_j·x_i)x_i is the noise of higher order. Of |w_j + ντMw_j + N_j|² 2w_j·N_j has 2τ 12c₄ wᵀMw,
    2ντ(Mw_j)·N_j has 2ντ² 12c₄φ₀ wᵀS₂w with S₂ = (1/n) Xᵀdiag(r²)X, and |N_j|² has τ²φ₀ E[h²h₂]/√2 wᵀS₂w.
    Degree two knows of w_jᵀSw_j, which it sees in the part of xᵀSx that s tells.
    """
    nodes, share, S = together.nodes, together.nodes.weight, together.S - together.mean
    variance, tau = float(share @ S**2), problem.eta / np.sqrt(problem.N)
    e, larger = parts[-1], (kinds.aside / kinds.v)[:, None]
    if variance <= 0:
        return [e, 0 * e]
    itself, square = _own_growth(problem.sigma)
    with_M, with_power = (float(share @ (S * form)) for form in (nodes.eigenvalue, nodes.power))
    grown = 2 * tau * itself * (with_M + tau * together.law.quadratic * problem.d / problem.step_samples * with_power)
    grown += tau**2 * problem.d / problem.step_samples * square * with_power
    form = e * larger * np.sqrt(2 / D / variance) * (variance + grown)
    if parts.shape[0] >= 5:
        told = float(share @ (S**2 * together.S)) / variance / together.mean / np.sqrt(multiplicity(int(D), 2))
        across = together.second - 1
        form = form + parts[2] * told * (r**2 / D - 1) * np.sqrt(across * D / 2) / together.second
    return [e, form]


def _own_growth(sigma: Function) -> tuple[float, float]:
    """12c₄ and E[h²(g² − 1)]/2, h = σ' − c₁ − 2c₂g."""
    g, w = sigma.rule
    p, c = w * gauss_density(g), sigma.coefficients
    h = sigma.derivative(g) - c[1] - 2 * c[2] * g
    return slope_along_M(sigma) / np.sqrt(2) - 2 * c[2], float(p @ (h**2 * (g**2 - 1))) / 2
