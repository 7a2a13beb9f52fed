"""Which move of the first layer helps, judged on rows that built neither the features nor the readout.

Moves: a gradient step of the fitted network (`_layer`) at ρ = 1 or 3, or learned maps (`_maps`), four of them, full or
diagonal. Every move has the penalty that suits it best on the held-out rows; all are compared with no move, row by row. The
choice is made with at most `Effort.width` neurons on at most `Effort.rows` rows, whatever the size of the fit; the first fold
rejects all moves but the two best.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from onestride._backend.threads import together
from onestride._numerics import Array
from onestride.estimator._layer import GradientKind, Layer, Recipe, step_direction, stepped, weight_gradient
from onestride.estimator._maps import LearnedMap, MapKind, learn_maps, start_maps
from onestride.estimator._ridge import Readout, ridge_solutions
from onestride.estimator._table import MOST_INPUTS

STEPS = (0.0, 1.0, 3.0)  # relative sizes ρ of a gradient step that held-out rows choose from
MAP_STEP = 10.0  # that of maps: one part in eleven of the layer stays as it was drawn
AROUND = (0.01, 0.1, 1.0, 10.0, 100.0)  # penalties tried for each, as multiples of the one without a step
LIFT = 100.0  # the step is taken at this multiple of the chosen penalty: its residual keeps more signal
FOLDS = 3
FEWEST_ROWS = 12  # with fewer distinct rows no step can be judged
SURVIVORS = 2  # moves that go on after the first fold
ENOUGH_ROWS = (1500, 500)  # with more, one of the three folds judges well enough, or two


class Effort(NamedTuple):
    """How much work goes into the choice: rows and neurons it is made with, neurons that learn maps, numbers of maps."""

    rows: int = 4000
    width: int = 512
    neurons: int = 128
    maps: tuple[int, ...] = (4,)


EFFORTS = {"default": Effort(), "high": Effort(16_000, 1024, 512, (1, 2, 4, 6))}


class Move(NamedTuple):
    """A gradient step of a kind, taken `repeats` times, or that many learned maps."""

    kind: GradientKind | MapKind | Literal["none"]
    repeats: int

    @property
    def is_map(self) -> bool:
        """Whether it is a learned map of the inputs."""
        return self.kind in ("full", "diagonal")

    @property
    def steps(self) -> tuple[float, ...]:
        """The sizes ρ that are tried."""
        return (MAP_STEP,) if self.is_map else STEPS[1:]


@dataclass(frozen=True)
class HeldOut:
    """Mean squared errors on rows that neither built the features nor fitted the readout, one per step size ρ.

    `gain` is the fall against ρ = 0, row by row on the same rows, and `stderr` its standard error. In units of the
    target's variance; empty when the step size was given or there were too few rows.
    """

    steps: tuple[float, ...] = ()
    errors: tuple[float, ...] = ()
    gain: tuple[float, ...] = ()
    stderr: tuple[float, ...] = ()

    def choice(self) -> float:
        """The step with the smallest error among those that gain more than one standard error; else none."""
        sure = [(e, s) for s, e, g, se in zip(self.steps, self.errors, self.gain, self.stderr, strict=True) if g > se]
        return min(sure)[1] if sure else 0.0

    def error(self, step: float) -> float:
        """The error at one of the steps."""
        return self.errors[self.steps.index(step)]


def moves(recipe: Recipe, inputs: int, effort: Effort) -> list[Move]:
    """What is tried: the one kind asked for, or a shared gradient step and both kinds of maps."""
    if recipe.gradient in ("shared", "neurons"):
        return [Move(recipe.gradient, recipe.steps)]
    if recipe.gradient in ("full", "diagonal"):
        return [Move(recipe.gradient, recipe.steps)]
    if inputs > MOST_INPUTS:
        return [Move("shared", recipe.steps)]
    return [Move("shared", recipe.steps), *(Move(kind, k) for kind in ("full", "diagonal") for k in effort.maps)]


def take_steps(
    layer: Layer,
    change: Array,
    step: float,
    Z: Array,
    Y: Array,
    w: Array,
    alpha: float,
    kind: GradientKind,
    count: int,
    guide: Layer | None = None,
) -> Layer:
    """The layer after `count` gradient steps of size ρ of the guide (itself when None), of which `change` is the first.

    All on the same rows, with the guide's readout at α fitted again before each.
    """
    guide = layer if guide is None else guide
    for k in range(count):
        alone = guide is layer
        if k or (count > 1 and not alone):
            (readout,) = ridge_solutions(guide.design(Z), Y, w, np.array([alpha]))
            G = weight_gradient(guide, readout, Z, Y, w)
            change = step_direction(guide, G, kind, layer)
            guide = guide if alone else stepped(guide, step_direction(guide, G, kind), step)
        layer = stepped(layer, change, step)
        guide = layer if alone else guide
    return layer


def learned_map(layer: Layer, Z: Array, Y: Array, w: Array, move: Move, step: float, effort: Effort) -> LearnedMap:
    """The last map of a move of the network that leads the layer."""
    start = start_maps(layer.leader(1.0)[0], Z, Y, w, step, effort.neurons)
    *_, last = learn_maps(start, Z, Y, w, step, move.kind, move.repeats)  # pyright: ignore[reportArgumentType]
    return last


Losses = dict[tuple[Move, float], Array]
Maps = dict[tuple[int, Move], LearnedMap]  # by the identity of the network and the move


class Known(NamedTuple):
    """What networks have learned in one fold: their maps, and the gradients of their steps, by identity."""

    maps: Maps
    gradients: dict[int, Array]


class Candidate(NamedTuple):
    """A moved layer, the penalty around which its readout is sought, and its readouts if they are known."""

    move: Move
    step: float
    layer: Layer
    alpha: float
    readouts: list[Readout] | None = None


def _steps_taken(
    layer: Layer, Z: Array, Y: Array, w: Array, alpha: float, tried: list[Move], known: Known
) -> list[Candidate]:
    """No move first, then every gradient step at every size; built on these rows alone. A network's gradient is taken once."""
    guide, strength = layer.leader(alpha)
    own = guide is layer and not all(move.is_map for move in tried)
    features = layer.design(Z)
    readouts = ridge_solutions(features, Y, w, alpha * np.array([*AROUND, LIFT] if own else AROUND))
    found = [Candidate(Move("none", 0), 0.0, layer, alpha, readouts[: len(AROUND)])]
    for move in tried:
        if not move.is_map:
            kind: GradientKind = move.kind  # pyright: ignore[reportAssignmentType]
            if id(guide) not in known.gradients:
                if not own:
                    features = guide.design(Z)
                    readouts = ridge_solutions(features, Y, w, np.array([LIFT * strength]))
                known.gradients[id(guide)] = weight_gradient(guide, readouts[-1], Z, Y, w, features)
            change = step_direction(guide, known.gradients[id(guide)], kind, layer)
            for step in move.steps:
                moved = take_steps(layer, change, step, Z, Y, w, LIFT * strength, kind, move.repeats, guide)
                found.append(Candidate(move, step, *moved.settled(Z, Y, w, alpha)))
    return found


def _maps_applied(
    layer: Layer, Z: Array, Y: Array, w: Array, alpha: float, tried: list[Move], effort: Effort, known: Known
) -> list[Candidate]:
    """Every learned map; those of a network are learned once."""
    guide, wanted = layer.leader(alpha)[0], [move for move in tried if move.is_map]
    maps = known.maps
    learn(guide, Z, Y, w, [move for move in wanted if (id(guide), move) not in maps], effort, maps)
    learned = [(move, maps[id(guide), move]) for move in wanted]
    return together(
        lambda one: Candidate(one[0], MAP_STEP, *one[1].applied(layer, MAP_STEP).settled(Z, Y, w, one[1].alpha)),
        learned,
    )


def learn(guide: Layer, Z: Array, Y: Array, w: Array, wanted: list[Move], effort: Effort, known: Maps) -> None:
    """The maps that are wanted, gradient steps aside, by the network, among those that are known."""
    kinds: list[MapKind] = [kind for kind in ("full", "diagonal") if any(move.kind == kind for move in wanted)]
    start = start_maps(guide, Z, Y, w, MAP_STEP, effort.neurons) if kinds else None

    def follow(kind: MapKind) -> None:
        counts = [move.repeats for move in wanted if move.kind == kind]
        learned = learn_maps(start, Z, Y, w, MAP_STEP, kind, max(counts)) if start else ()
        known.update({(id(guide), Move(kind, count)): one for count, one in enumerate(learned, 1) if count in counts})

    together(follow, kinds)


def split(n: int, generator: np.random.Generator) -> Array:
    """The fold of every row."""
    return generator.permutation(n) % FOLDS


def judge_moves(
    layer: Layer,
    Z: Array,
    Y: Array,
    w: Array,
    alpha: float,
    tried: list[Move],
    effort: Effort,
    generator: np.random.Generator,
) -> dict[Move, HeldOut]:
    """Build features and readout on two thirds of the rows, measure on the rest, for every move on the same rows.

    The input scale and α, the penalty without a step, come from all rows; they are the same for every move.
    """
    if len(Z) < FEWEST_ROWS or not Y.any():
        return {}
    losses = fold_losses(layer, Z, Y, w, alpha, tried, effort, split(len(Z), generator))
    assert losses is not None  # there was nothing to be behind
    return held_out_errors(tried, losses, w)


def fold_losses(
    layer: Layer,
    Z: Array,
    Y: Array,
    w: Array,
    alpha: float,
    tried: list[Move],
    effort: Effort,
    fold: Array,
    to_beat: Array | None = None,
    known: tuple[Known, ...] | None = None,
) -> Losses | None:
    """Squared errors of every move and size on held-out rows, one row per penalty; NaN where they were not measured.

    None when the best of them is not below `to_beat` (n) in the first fold. `known` collects what was learned in each fold.
    """
    n = len(Z)
    judged = range(1 + sum(n <= enough for enough in ENOUGH_ROWS))
    losses: Losses = {}
    surviving, known = tried, known or tuple(Known({}, {}) for _ in judged)
    for k in judged:
        out = fold == k
        rows = (Z[~out], Y[~out], w[~out])
        measured = partial(_measured, rows=rows, out=(Z[out], Y[out]))
        ways = (
            partial(_steps_taken, layer, *rows, alpha, surviving, known[k]),
            partial(_maps_applied, layer, *rows, alpha, surviving, effort, known[k]),
        )
        for found in together(lambda way: together(measured, way()), ways):  # noqa: B023
            for of, held in found:
                losses.setdefault(of, np.full((len(AROUND), n), np.nan))[:, out] = held
        if k == 0:
            seen = {move: min((losses[move, s][:, out] @ w[out]).min() for s in move.steps) for move in tried}
            surviving = sorted(tried, key=lambda move: seen[move])[:SURVIVORS]
            best = min(float((held[:, out] @ w[out]).min()) for held in losses.values())
            if to_beat is not None and best >= float(to_beat[out] @ w[out]):
                return None
    return losses


def _measured(
    c: Candidate, rows: tuple[Array, Array, Array], out: tuple[Array, Array]
) -> tuple[tuple[Move, float], Array]:
    """Squared errors on the rows held `out`, one row per penalty, of readouts fitted to the others."""
    Z, Y = out
    readouts = c.readouts or ridge_solutions(c.layer.design(rows[0]), *rows[1:], c.alpha * np.array(AROUND))
    design = c.layer.design(Z)
    return (c.move, c.step), np.stack([np.square(Y - c0 - design @ C).mean(1) for C, c0 in readouts])


def held_out_errors(tried: list[Move], losses: Losses, w: Array) -> dict[Move, HeldOut]:
    """What held-out rows say of every move."""
    return {move: _held_out(move, losses, w) for move in tried}


def chosen_losses(losses: Losses, move: Move, step: float, w: Array) -> Array:
    """Those of one choice (no move when ρ = 0) at its best penalty, n; NaN where rows were not judged."""
    held = losses[move, step] if step else losses[Move("none", 0), 0.0]
    rows = np.isfinite(held).all(axis=0)
    return held[int(np.argmin(held[:, rows] @ w[rows]))]


def _held_out(move: Move, losses: Losses, w: Array) -> HeldOut:
    """What the rows on which a move was judged say of it."""
    steps = (0.0, *move.steps)
    stack = np.stack([losses[Move("none", 0), 0.0], *(losses[move, s] for s in move.steps)])
    rows = np.isfinite(stack).all(axis=(0, 1))
    return _paired(stack[:, :, rows], w[rows], steps)


def _paired(losses: Array, w: Array, steps: tuple[float, ...]) -> HeldOut:
    """Per ρ the best penalty's mean loss, and its gain over ρ = 0 with the standard error of the paired difference."""
    share = w / w.sum()
    best = [loss[int(np.argmin(loss @ share))] for loss in losses]
    gains = [best[0] - loss for loss in best]
    means = [float(g @ share) for g in gains]
    errors = [float(np.sqrt(np.square(share * (g - m)).sum())) for g, m in zip(gains, means, strict=True)]
    return HeldOut(steps, tuple(float(loss @ share) for loss in best), tuple(means), tuple(errors))


def best_move(judged: dict[Move, HeldOut]) -> Move:
    """The move with the smallest error among those that gain more than one standard error, else the best of all."""
    sure = {move: h.error(h.choice()) for move, h in judged.items() if h.choice()}
    errors = sure or {move: min(h.errors[1:]) for move, h in judged.items()}
    return min(errors, key=lambda move: errors[move])
