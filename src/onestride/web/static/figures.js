// Errors, learned shares and the learned function, from the answers of the server.

import { draw, legend, logTicks, niceTicks } from "./chart.js";
import { finite, logName, percent, show } from "./text.js";

const THRESHOLDS = [0, 1 / 4, 1 / 3, 3 / 8];
const NAMES = { 0: "0", 0.25: "1/4", 0.375: "3/8", [1 / 3]: "1/3" };
export const AXES = {
  exponent: { symbol: "α", label: "α in η = c·n^α" },
  ridge: { symbol: "λ", label: "penalty λ" },
  n: { symbol: "n", label: "samples n, at fixed ratios" },
  phi: { symbol: "φ", label: "φ = d/n" },
  psi: { symbol: "ψ", label: "ψ = d/N" },
  noise: { symbol: "noise", label: "noise σ_ε of the labels" },
  constant: { symbol: "c", label: "c in η = c·n^α" },
};
export const QUANTITIES = {
  test_error: { words: "Test error", of: (f) => f.test_error },
  train_loss: { words: "Ridge objective", of: (f) => f.train_loss },
  train_mse: { words: "Training error", of: (f) => f.train_mse },
  gap: { words: "Test minus training error", of: (f) => minusOf(f.test_error, f.train_mse) },
};
const BASELINES = { "linear-ridge": "ridge on the inputs", "best-linear": "best linear predictor", "direction-only": "best function of βᵀx", bayes: "noise alone" };
export const OFF = { label: "known to be off by more than 5 %", style: "off", fixed: true };

const minusOf = (a, b) => (Array.isArray(a) ? a.map((v, i) => minusOf(v, Array.isArray(b) ? b[i] : b)) : a == null || b == null ? null : a - b);
const spread = (values, x) => (Array.isArray(values) ? values : x.map(() => values)); // one number for the whole axis, or one for each position

function xAxis({ axis, x }, axes) {
  const [low, high] = [Math.min(...x), Math.max(...x)];
  const { label } = AXES[axis];
  if (axis === "exponent") {
    const ticks = [0, 0.1, 0.2, 0.3, 0.4, 0.5].filter((t) => t >= low - 1e-9);
    return { low, high, ticks: low < 0 ? [low, ...ticks] : ticks, format: (t) => show(t, 2), label };
  }
  if (axes[axis].log) return { low, high, log: true, ticks: logTicks(low, high), format: logName, label };
  return { ...niceTicks(low, high, 5), low, high, label };
}

function bands({ axis, windows }) {
  if (axis !== "exponent" || !windows) return [];
  const found = [];
  for (let ell = 1; ell <= 3; ell++) {
    const [from, to] = [(ell - 1) / (2 * ell), ell / (2 * ell + 2)];
    found.push({ from, to, label: ell === 1 ? "window ℓ = 1" : String(ell), shaded: ell === 2 });
  }
  return [...found, { from: 3 / 8, to: 1 / 2, label: "4, 5, …", shaded: true }];
}

// Thresholds of the windows, and where several steps of the literal gradient stop being stable, c₁²η = bound.
function verticals({ axis, x, stable, windows }) {
  if (axis !== "exponent") return [];
  const thresholds = (windows ? THRESHOLDS : []).filter((t) => t >= Math.min(...x)).map((at) => ({ at, label: NAMES[at] }));
  return stable ? [...thresholds, { at: stable.exponent, kind: "stable", foot: "unstable →" }] : thresholds;
}

function yAxis(values, optional, top) {
  const must = finite(values);
  if (!must.length) return niceTicks(0, 1);
  let [low, high] = [Math.min(...must), Math.max(...must)];
  const span = Math.max(high - low, 0.02 * Math.abs(high) || 1e-3);
  const [least, most] = [low - 0.9 * span, high + 0.9 * span];
  for (const v of finite(optional)) if (v > least && v < most) [low, high] = [Math.min(low, v), Math.max(high, v)];
  const room = 0.05 * Math.max(high - low, span);
  return niceTicks(Math.max(low - room, low >= 0 ? 0 : -Infinity), high + top * room, 5); // the windows' names stand on top
}

// The curve at the handle, while its own number is on the way.
function between(x, y, at) {
  const i = x.findIndex((v, k) => k + 1 < x.length && v <= at && at <= x[k + 1]);
  return i < 0 || y[i] == null || y[i + 1] == null ? null : y[i] + ((at - x[i]) / (x[i + 1] - x[i])) * (y[i + 1] - y[i]);
}

const isOff = (status) => status === "inaccurate";

// What is said about the problem itself: the full theory's number, else the full curve, else the quick number.
function valueHere(column, quantity, { curves, here, at, fresh, gain }) {
  const onCurve = fresh ? between(curves.x, column, at) : null;
  const own = here ? QUANTITIES[quantity].of(here) : null;
  const before = between(curves.x, spread(QUANTITIES[quantity].of(curves.untrained), curves.x), at);
  const told = gain ? minusOf(before, own) : own;
  if (here?.quality === "full" || onCurve == null) return told;
  return curves.quality === "full" ? onCurve : told ?? onCurve;
}

function offHere(curves, here, at) {
  if (here) return isOff(here.status);
  const nearest = curves.x.reduce((best, x, i) => (Math.abs(x - at) < Math.abs(curves.x[best] - at) ? i : best), 0);
  return isOff(curves.status[nearest]);
}

// After the step, or by how much it is less than before.
export function columnOf(curves, quantity, gain) {
  const { of } = QUANTITIES[quantity];
  return gain ? minusOf(spread(of(curves.untrained), curves.x), of(curves)) : of(curves);
}

// Points at their own α, or the one of this problem on another axis. Gains are paired by seed, so their bars are shorter.
function measuredOf(points, quantity, { curves, alpha, at, gain }) {
  const rows = points?.[quantity] ?? [];
  const here = curves.axis === "exponent" ? rows : rows.filter((p) => p.alpha === alpha);
  return here.map((p) => ({ x: curves.axis === "exponent" ? p.alpha : at, seeds: p.seeds, ...(gain ? p.gain : { mean: p.mean, stderr: p.stderr }) }));
}

// Pinned curves along the axis that is drawn: those along another one are asked for anew.
const onAxis = (pins, { axis }) => pins.filter((pin) => pin.curves?.x && pin.curves.axis === axis);

function ghosts(pins, curves, of) {
  return onAxis(pins, curves).map((pin, i) => ({ kind: "line", x: pin.curves.x, y: of(pin.curves), label: pin.name, colour: 4, style: `ghost dash-${i % 4}`, end: pin.name.slice(0, 9) }));
}

export function errorFigure(svg, list, quantity, shown) {
  const { curves, here, points, at, fresh, gain, pins, axes } = shown;
  svg.axis = curves.axis;
  const column = columnOf(curves, quantity, gain);
  const measured = measuredOf(points, quantity, shown);
  const before = QUANTITIES[quantity].of(curves.untrained);
  const lines = gain ? [{ at: 0, label: "no gain", style: 1 }] : Array.isArray(before) ? [] : [{ at: before, label: "without the step", style: 1 }];
  const moving = []; // lines that change along this axis
  if (!gain && Array.isArray(before)) moving.push({ y: before, end: "without", label: "without the step" });
  if (!gain && quantity === "test_error")
    Object.entries(BASELINES).forEach(([key, label], i) => {
      const value = curves.baselines[key];
      if (Array.isArray(value)) moving.push({ y: value, end: { "linear-ridge": "ridge", bayes: "noise" }[key], label });
      else lines.push({ at: value, label, style: 2 + i });
    });
  const drawn = moving.filter((m) => m.end);
  const pinned = ghosts(pins, curves, (c) => columnOf(c, quantity, gain));
  const limit = gain || !curves.limit ? [] : curves.limit[quantity] ?? [];
  const off = curves.status.map(isOff);
  const here_ = valueHere(column, quantity, shown);
  const onAxis = at >= Math.min(...curves.x) && at <= Math.max(...curves.x); // elsewhere it is not drawn
  const doubt = here_ != null && offHere(curves, here, at);
  const bars = measured.flatMap((p) => [p.mean - (p.stderr ?? 0), p.mean + (p.stderr ?? 0)]);
  const must = [...column, ...(gain ? [0] : Array.isArray(before) ? before : [before]), ...bars, ...(onAxis ? [here_] : []), ...pinned.flatMap((p) => p.y)];
  draw(svg, {
    x: xAxis(curves, axes),
    y: yAxis(must, [...limit, ...lines.slice(1).map((l) => l.at), ...drawn.flatMap((m) => m.y)], curves.axis === "exponent" ? 5.2 : 1),
    right: pinned.length || drawn.length ? 62 : 14,
    bands: bands(curves),
    verticals: verticals(curves),
    horizontals: lines,
    series: [
      ...(limit.length ? [{ kind: "stairs", x: curves.limit.windows, y: limit, colour: 1, group: "limit" }] : []),
      ...drawn.map((m) => ({ kind: "line", x: curves.x, y: m.y, label: m.label, colour: 4, style: "dash-1", end: m.end })),
      ...pinned,
      { kind: "line", x: curves.x, y: column, label: "theory", off },
      {
        kind: "points",
        label: "simulation",
        x: measured.map((p) => p.x),
        y: measured.map((p) => p.mean),
        error: measured.map((p) => p.stderr),
        titles: measured.map((p) => `${AXES[curves.axis].symbol} = ${show(p.x)}: ${show(p.mean, 4)}${p.stderr == null ? "" : ` ± ${show(p.stderr, 2)}`}, ${p.seeds} seeds`),
      },
    ],
    handles: [{ at, value: here_, label: doubt ? `${show(here_)}, known to be off` : show(here_), off: doubt }],
  });
  const entries = [...(off.every(Boolean) ? [] : [{ label: curves.axis === "n" ? "theory" : "theory at this n", group: "theory" }]), ...(off.some(Boolean) ? [OFF] : []), ...(finite(limit).length ? [{ label: "limit n → ∞", kind: "limit", colour: 1, group: "limit" }] : [])];
  if (measured.length) entries.push({ label: `simulation, ${measured[0].seeds} seeds${gain ? ", paired" : ""}`, kind: "points", group: "simulation" });
  legend(list, entries);
  const { words } = QUANTITIES[quantity];
  const value = here_ == null ? "" : `, ${show(here_)} at ${AXES[curves.axis].symbol} = ${show(at)}${doubt ? ", known to be off by more than 5 %" : ""}`;
  svg.setAttribute("aria-label", `${gain ? "Gain of the step in " : ""}${words} against ${AXES[curves.axis].symbol}${value}${Array.isArray(before) ? "" : `; without the step ${show(before)}`}`);
}

export function learnedFigure(svg, list, { curves, here, points, at, pins, axes }) {
  svg.axis = curves.axis;
  const series = [];
  const entries = [];
  const off = curves.status.map(isOff);
  const pinned = onAxis(pins, curves);
  curves.degrees.forEach((k, i) => {
    const before = curves.untrained_fraction[k];
    if (Array.isArray(before)) series.push({ kind: "line", x: curves.x, y: before, colour: i, style: "level", label: `degree ${k}, without the step`, group: "without" });
    else series.push({ kind: "level", y: before, colour: i, group: "without" });
    for (const pin of pinned) if (pin.curves.fraction[k]) series.push({ kind: "line", x: pin.curves.x, y: pin.curves.fraction[k], colour: i, style: `ghost dash-${i}`, label: `degree ${k}, ${pin.name}`, group: "pins" });
    series.push({ kind: "line", x: curves.x, y: curves.fraction[k], colour: i, label: `degree ${k}`, end: `H${"₁₂₃₄"[k - 1]}`, off });
    const row = points?.learned?.[k];
    if (row) series.push({ kind: "points", label: `degree ${k}, simulation`, group: "simulation", x: [at], y: [row.mean], error: [row.stderr], colour: i, titles: [`degree ${k}: ${show(row.mean)} ± ${show(row.stderr, 2)}`] });
    entries.push({ label: `degree ${k}`, colour: i });
  });
  entries.push({ label: "without the step", kind: "level", colour: 0, group: "without" }, ...(off.some(Boolean) ? [OFF] : []));
  if (pinned.length) entries.push({ label: pinned.map((p) => p.name).join(", "), style: "ghost", group: "pins" });
  const all = finite(series.flatMap((s) => s.y));
  const axis = niceTicks(Math.min(...all) < -0.05 ? Math.max(Math.min(...all), -1) : 0, Math.max(...all) > 1.05 ? Math.min(Math.max(...all), 2) : 1, 4);
  draw(svg, {
    x: xAxis(curves, axes),
    y: { ...axis, low: Math.min(axis.low, -0.03), high: Math.max(axis.high, 1.03), format: (t) => `${Math.round(100 * t)} %`.replace("-", "−"), spoken: (t) => `${Number((100 * t).toFixed(2))} %` },
    right: 26,
    bands: bands(curves).map((b) => ({ ...b, label: "" })),
    verticals: verticals(curves),
    series,
    handles: [{ at, value: null }],
  });
  if (points?.learned) entries.push({ label: "simulation", kind: "points" });
  legend(list, entries);
  svg.setAttribute("aria-label", `Share of each degree learned against ${AXES[curves.axis].symbol}${sharesOf(here, ` at ${show(at)}`)}`);
}

// What is known of the shares, in words; null is not 0.
export function sharesOf(here, where = "") {
  const known = Object.entries(here?.fraction ?? {}).filter(([, v]) => v != null);
  return known.length ? `: ${known.map(([k, v]) => `${percent(v)} of degree ${k}`).join(", ")}${where}` : "";
}

// ------------------------------------------------------------------ the function

// Σ a_k h_k(z), h_k the Hermite polynomials of unit norm.
export function hermiteSum(components, z) {
  let [before, now] = [0, 1];
  let sum = components[0];
  for (let k = 1; k < components.length; k++) {
    [before, now] = [now, (z * now - Math.sqrt(k - 1) * before) / Math.sqrt(k)];
    sum += components[k] * now;
  }
  return sum;
}

const curveOf = (components, z) => (components?.every((c) => c != null) ? z.map((x) => hermiteSum(components, x)) : z.map(() => null));

export function functionFigure(svg, list, { curves, here, points, fresh, pins, own = [] }) {
  const { z, teacher } = here.function;
  const several = here.directions > 1;
  const off = isOff(here.status);
  const trained = curveOf(here.components, z);
  const untrained = fresh ? curveOf(curves?.untrained_components, z) : z.map(() => null);
  const dots = points?.function;
  const inside = (values) => values.filter((_, i) => Math.abs(z[i]) <= 2.4);
  const y = niceTicks(Math.min(...finite([...inside(teacher), ...inside(trained)])), Math.max(...finite([...inside(teacher), ...inside(trained)])), 5);
  const series = [
    { kind: "dots", label: "f̂(x), simulated", x: dots?.z ?? [], y: dots?.trained ?? [], colour: 0 },
    { kind: "line", x: z, y: teacher, label: "teacher", colour: 1, style: "dash-0", straight: true },
    { kind: "line", x: z, y: untrained, label: "without the step", colour: 4, straight: true },
    ...pins.filter((pin) => pin.here?.components).map((pin, i) => ({ kind: "line", x: z, y: curveOf(pin.here.components, z), label: pin.name, colour: 0, style: `ghost dash-${(i % 3) + 1}`, straight: true, end: pin.name.slice(0, 9) })),
    { kind: "line", x: z, y: trained, label: "after the step", colour: 0, straight: true, off: off ? z.map(() => true) : null },
    ...own,
  ];
  draw(svg, { x: { low: -3, high: 3, ticks: [-3, -2, -1, 0, 1, 2, 3], format: (t) => show(t, 2), label: several ? "z₁ = β_1^⊤x" : "z = β_⋆^⊤x" }, y, right: pins.length ? 62 : 14, series });
  legend(list, [
    { label: several ? "labels, E[y | z₁]" : "teacher σ⋆(z)", colour: 1, style: "dash-0", group: "teacher" },
    { label: `learned with the step${off ? ", known to be off" : ""}`, colour: 0, style: off ? "off" : undefined, group: "after the step" },
    { label: "without it", colour: 4, group: "without the step" },
    ...own.map(({ group, colour, style }) => ({ label: group, group, colour, style })),
    ...(dots ? [{ label: "f̂(x), simulated", kind: "dots" }] : []),
  ]);
  svg.setAttribute("aria-label", `The teacher and what the network has learned of it${sharesOf(here)}`);
}
