"""Errors of ridge regression on N random features and n rows, from two functions that the rows of a table show.

Neurons are independent given the step, so their features have a kernel K(x, x') = E σ(wᵀx)σ(wᵀx'), with eigenvalues ξ_k under
the law of x and energies v_k² of the labels along its eigenfunctions; σ_ε² is what no eigenfunction holds. Write

    z(γ) = Σ_k ξ_k/(ξ_k + γ),     q = Σ_k (ξ_k/(ξ_k + γ))² = z + dz/dlog γ,     A(γ) = Σ_k γ/(ξ_k + γ) v_k² + σ_ε².

With δ = nλ/N the deterministic equivalents of random features (Simon et al. 2024; Defilippis et al. 2024) are

    n = z + δ/κ,     N = z + Nκ/γ                                                                        (two equations for κ, γ)
    test       = [A − N/(N − q) κ/γ dA/dlog γ] / [1 − (q(N − 2z) + z²)/(n(N − q))]
    training   = (δ/nκ)² test,          objective = (δ/nκ) A.

No eigenvalue and no noise level has to be estimated: both functions can be read off one fit of m rows with M neurons at many
penalties. The trace of its smoother is z, hence κ = δ/(m − z), γ = Mκ/(M − z); its leave-one-out error is the test error at (m, M),
and the formula above read backwards is a linear equation for A, C being the product of test error and denominator,

    dA/dlog γ = (M − q)/(M − z) (A − C),     A → E y² for γ → ∞.

Below the smallest γ that m rows show, z and A − dA/dlog γ go on as the powers of γ that they are there.

What is learned: the mean fit holds ξ_k/(ξ_k + γ) of the labels along an eigenfunction, so that for any function g of x

    E g(x)(y − f̂(x)) = Σ_k γ/(ξ_k + γ) g_k v_k,

which depends on n, N and λ through γ alone; residuals of rows left out show it at every γ. Below the smallest one it goes on as the power
of γ that it is there, between 0 and 1 as each of its terms is: a term's power, ξ_k/(ξ_k + γ), rises to 1, so that where they have one sign this is the least
that is learned.
"""

# pyright: reportMissingTypeStubs=false, reportConstantRedefinition=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.linalg import eigh

from onestride._numerics import Array, Float

_PENALTIES = np.logspace(4, -11, 91)  # of the largest eigenvalue
_SHOWN = 0.9  # of min(m, M): a trace beyond this hangs on the last few rows
_FINE = 600  # points of the curves; the root is interpolated between them
FIXED = 10**15  # neurons: all there are
_LAST = 2.0  # in log γ, above the smallest one: what powers are read off
_BEYOND = 25.0  # in log γ, of the powers that continue them


@dataclass(frozen=True)
class KernelLaw:
    """The functions z, q and A of u = log γ, rising; `shown` is the smallest u that the rows show, and `stderr` of A relative to it.

    left: E g(y − f̂) of functions g at the nodes `at`, from u = shown on; last E g y, its value at γ = ∞.
    """

    rows: int
    u: Float[Array, "u"]
    z: Float[Array, "u"]
    q: Float[Array, "u"]
    A: Float[Array, "u"]
    slope: Float[Array, "u"]
    stderr: Float[Array, "u"]
    shown: float
    at: Float[Array, "v"]
    left: Float[Array, "g values"]

    def lowest(self, n: float) -> float:
        """How far down in log γ powers may continue the curves at n rows: like n⁻², and a factor e at most where n = m."""
        return self.shown - 1 - 2 * float(np.log(max(n / self.rows, 1.0)))

    def errors(self, n: int, N: int, ridges: Float[Array, "penalties"]) -> Float[Array, "6 penalties"]:
        """Objective, training and test error, their relative standard error, the smallest γ that rows show over the one needed, and 1/denominator."""
        out = np.empty((6, ridges.size))
        for j, (d, at) in enumerate(zip(n * ridges / N, self._scales(n, N, ridges), strict=True)):
            zs, q, A, slope, spread = (
                float(np.interp(at, self.u, part)) for part in (self.z, self.q, self.A, self.slope, self.stderr)
            )
            kappa = np.exp(at) * (N - zs) / N if n < N else d / (n - zs)  # whichever difference is the larger one
            share, kept = kappa / np.exp(at), d / (n * kappa)
            amplified = 1 / (1 - (q * (N - 2 * zs) + zs**2) / (n * (N - q)))
            test = (A - N / (N - q) * share * slope) * amplified
            out[:, j] = kept * A, kept**2 * test, test, spread, np.exp(self.shown - at), amplified
        return out

    def unlearned(self, n: int, N: int, ridge: float) -> Float[Array, "g 2"]:
        """E g(y − f̂) and E g y of every function g."""
        (at,) = self._scales(n, N, np.array([ridge]))
        below = np.exp(self.falls * min(at - self.shown, 0.0))
        return np.array([[np.interp(at, self.at, v[:-1]) * f, v[-1]] for v, f in zip(self.left, below, strict=True)])

    @cached_property
    def falls(self) -> Float[Array, "g"]:
        """Powers of γ that continue what is left below the smallest one: its slope over the last factor e², where it has one sign there."""
        some = self.at <= self.shown + _LAST
        last = self.left[:, :-1][:, some]
        sure = (np.abs(last) > 0).all(1) & (np.ptp(np.sign(last), axis=1) == 0) & (some.sum() > 2)
        slopes = [
            np.polyfit(self.at[some], np.log(np.abs(v)), 1)[0] if ok else 0.0 for v, ok in zip(last, sure, strict=True)
        ]
        return np.clip(np.array(slopes, float), 0.0, 1.0)

    def _scales(self, n: int, N: int, ridges: Float[Array, "penalties"]) -> list[float]:
        """The root u = log γ of both equations at each penalty."""
        some = self.z < N * (1 - 1e-9)
        u, z = self.u[some], self.z[some]
        inverse_kappa = N / (np.exp(u) * (N - z))
        rows = [np.log(z + d * inverse_kappa) for d in n * ridges / N]  # fall with u
        return [float(np.interp(np.log(n), each[::-1], u[::-1])) for each in rows]


def kernel_law(
    F: Float[Array, "m M"], y: Float[Array, "m *outputs"], g: Float[Array, "m g"] | None = None, *, fixed: bool = False
) -> KernelLaw:
    """Both functions from the features of m rows and their labels, of several outputs the mean; and what is left along functions g.

    fixed: these very features are meant, not M draws of them; ask for errors at N = `FIXED` then.
    """
    m, M = F.shape[0], FIXED if fixed else F.shape[1]
    values, U = _smoother(F)
    delta = _PENALTIES * values[-1]
    h = values[:, None] / (values[:, None] + delta)
    z, falls = h.sum(0), (h * (1 - h)).sum(0)  # −dz/dlog δ
    kept, left_out, residual = 1 - U**2 @ h, np.zeros((m, delta.size)), np.empty((m, 0))
    for label in y.reshape(m, -1).T:
        residual = (label[:, None] - U @ (h * (U.T @ label)[:, None])) / kept
        left_out += np.square(residual) * (m / y.size)
    kappa = delta / (m - z)
    by_delta = 1 - falls / (m - z) - falls / (M - z)  # dlog γ/dlog δ
    u, q = np.log(M * kappa / (M - z)), z - falls / by_delta
    good = np.cumprod((z < _SHOWN * min(m, M)) & (by_delta > 0)).astype(bool)
    error = left_out.mean(0)
    left = (u[good][::-1], np.empty((0, 1))) if g is None else _left(u[good], g.T @ residual[:, good] / m, g.T @ y / m)
    u, z, q, error, stderr = np.stack([u, z, q, error, left_out.std(0) / np.sqrt(m) / error])[:, good]
    C, rate = error * (1 - (q * (M - 2 * z) + z**2) / (m * (M - q))), (M - q) / (M - z)
    A = _energy(u, rate, C, float(np.mean(y**2)))
    return _continued(m, np.stack([u, z, q, A, rate * (A - C), stderr])[:, ::-1], left)


def _left(u: Array, moments: Float[Array, "g u"], all_: Float[Array, "g"]) -> tuple[Array, Array]:
    """E g(y − f̂) with rising u, and last E g y."""
    return u[::-1], np.column_stack([moments[:, ::-1], all_])


def _smoother(F: Float[Array, "m M"]) -> tuple[Float[Array, "r"], Float[Array, "m r"]]:
    """Eigenvalues of FFᵀ/M, rising, and their vectors."""
    m, M = F.shape
    if m <= M:
        values, U = eigh(F @ F.T / M)
    else:
        values, V = eigh(F.T @ F / M)
        U = F @ (V / np.sqrt(M * np.maximum(values, 1e-300)))
    kept = values > 1e-13 * values[-1]
    return values[kept], U[:, kept]


def _energy(u: Array, rate: Array, C: Array, power: float) -> Float[Array, "u"]:
    """A of dA/du = rate (A − C), from large γ down; C linear between nodes, the rate constant."""
    A = np.empty_like(u)
    A[0] = (C[0] + power) / 2  # A = E y² − O(1/γ) there, and C falls short by twice as much
    for i in range(1, u.size):
        s, h = (rate[i] + rate[i - 1]) / 2, u[i - 1] - u[i]
        gone = -np.expm1(-s * h)
        mean = gone / (s * h) if h > 0 else 1.0
        A[i] = (1 - gone) * A[i - 1] + C[i - 1] * (mean - (1 - gone)) + C[i] * (1 - mean)
    return A


def _continued(rows: int, parts: Float[Array, "6 u"], left: tuple[Array, Array]) -> KernelLaw:
    """U, z, q, A, its slope and standard error on a fine grid, with powers of γ below the smallest one."""
    u, z, q, A, slope, stderr = parts
    grid = np.linspace(u[0], u[-1], _FINE)
    inner = [PchipInterpolator(u, part)(grid) for part in (np.log(z), q, A, slope, stderr)]
    inner[0] = np.exp(inner[0])
    last = z > z[0] / 2
    falls = float(np.clip(1 - q[0] / z[0], 0.02, 0.98))  # at the edge: q has no jump there
    down = np.linspace(-_BEYOND, 0, _FINE, endpoint=False)
    zs, As, slopes = z[0] * np.exp(-falls * down), *_energy_below(u[last], (A - slope)[last], float(A[0]), down)
    outer = (zs, (1 - falls) * zs, As, slopes, np.full(down.size, stderr[0]))
    zs, qs, As, slopes, spread = (np.concatenate(pair) for pair in zip(outer, inner, strict=True))
    return KernelLaw(rows, np.concatenate([u[0] + down, grid]), zs, qs, As, slopes, spread, float(u[0]), *left)


def _energy_below(u: Array, B: Array, A: float, down: Array) -> tuple[Float[Array, "down"], Float[Array, "down"]]:
    """A and its slope where B = A − dA/du = Σ(γ/(ξ + γ))²v² + σ_ε² is the power γ^s that it is at the nodes u, 0 ≤ s ≤ 2."""
    some = B > 0
    s = float(np.clip(np.polyfit(u[some], np.log(B[some]), 1)[0], 0.0, 2.0)) if some.sum() > 2 else 0.0
    if abs(1 - s) < 1e-3:
        s = 1 - 1e-3
    power = B[0] * np.exp(s * down)
    energy = power / (1 - s) + (A - B[0] / (1 - s)) * np.exp(down)
    return energy, energy - power
