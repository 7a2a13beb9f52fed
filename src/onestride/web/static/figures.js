// The four figures, from the answers of the server.

import { draw, legend, niceTicks, logTicks } from "./chart.js";
import { show, superscript } from "./text.js";

const THRESHOLDS = [0, 1 / 4, 1 / 3, 3 / 8];
const NAMES = { 0: "0", 0.25: "1/4", 0.375: "3/8", [1 / 3]: "1/3" };
const LABEL_X = "α in η = c·n^α";
const BASELINES = { "linear-ridge": "ridge on the inputs", "best-linear": "best linear predictor", "direction-only": "best function of βᵀx", bayes: "noise alone" };
const OFF = { label: "known to be off by more than 5 %", style: "off" };

const finite = (values) => values.filter((v) => v != null && Number.isFinite(v));

function alphaAxis(alpha) {
  const [low, high] = [Math.min(...alpha), Math.max(...alpha)];
  const ticks = [0, 0.1, 0.2, 0.3, 0.4, 0.5].filter((t) => t >= low - 1e-9);
  return { low, high, ticks: low < 0 ? [low, ...ticks] : ticks, format: (t) => show(t, 2), label: LABEL_X };
}

function bands() {
  const found = [];
  for (let ell = 1; ell <= 3; ell++) {
    const [from, to] = [(ell - 1) / (2 * ell), ell / (2 * ell + 2)];
    found.push({ from, to, label: ell === 1 ? "window ℓ = 1" : String(ell), shaded: ell === 2 });
  }
  return [...found, { from: 3 / 8, to: 1 / 2, label: "4, 5, …", shaded: true }];
}

const verticals = (alpha) => THRESHOLDS.filter((t) => t >= Math.min(...alpha)).map((at) => ({ at, label: NAMES[at] }));

function yAxis(values, optional = []) {
  const must = finite(values);
  if (!must.length) return niceTicks(0, 1);
  let [low, high] = [Math.min(...must), Math.max(...must)];
  const span = Math.max(high - low, 0.02 * Math.abs(high) || 1e-3);
  const [least, most] = [low - 0.9 * span, high + 0.9 * span];
  for (const v of finite(optional)) if (v > least && v < most) [low, high] = [Math.min(low, v), Math.max(high, v)];
  const room = 0.05 * Math.max(high - low, span);
  return niceTicks(Math.max(low - room, low >= 0 ? 0 : -Infinity), high + 5.2 * room, 5); // the windows' names stand on top
}

// The curve at α, while its own number is on the way.
function between(x, y, at) {
  const i = x.findIndex((v, k) => k + 1 < x.length && v <= at && at <= x[k + 1]);
  return i < 0 || y[i] == null || y[i + 1] == null ? null : y[i] + ((at - x[i]) / (x[i + 1] - x[i])) * (y[i + 1] - y[i]);
}

const isOff = (status) => status === "inaccurate";

// What is said about α itself: the full theory's number, else the full curve, else the quick number.
function valueHere(name, curves, here, alpha, fresh) {
  const onCurve = fresh ? between(curves.alpha, curves[name], alpha) : null;
  if (here?.quality === "full" || onCurve == null) return here?.[name] ?? null;
  return curves.quality === "full" ? onCurve : here?.[name] ?? onCurve;
}

function offHere(curves, here, alpha) {
  if (here) return isOff(here.status);
  const nearest = curves.alpha.reduce((best, x, i) => (Math.abs(x - alpha) < Math.abs(curves.alpha[best] - alpha) ? i : best), 0);
  return isOff(curves.status[nearest]);
}

export function errorFigure(svg, list, name, { curves, here, points, alpha, fresh }) {
  const measured = points?.[name] ?? [];
  const lines = [{ at: curves.untrained[name], label: "without the step", style: 1 }];
  if (name === "test_error")
    Object.entries(BASELINES).forEach(([key, label], i) => lines.push({ at: curves.baselines[key], label, style: 2 + i }));
  const off = curves.status.map(isOff);
  const here_ = valueHere(name, curves, here, alpha, fresh);
  const doubt = here_ != null && offHere(curves, here, alpha);
  const y = yAxis(
    [...curves[name], curves.untrained[name], ...measured.flatMap((p) => [p.mean - (p.stderr ?? 0), p.mean + (p.stderr ?? 0)]), here_],
    [...curves.limit[name], ...lines.slice(1).map((l) => l.at)],
  );
  draw(svg, {
    x: alphaAxis(curves.alpha),
    y,
    bands: bands(),
    verticals: verticals(curves.alpha),
    horizontals: lines,
    series: [
      { kind: "stairs", x: curves.limit.windows, y: curves.limit[name], colour: 1 },
      { kind: "line", x: curves.alpha, y: curves[name], label: "theory", off },
      {
        kind: "points",
        x: measured.map((p) => p.alpha),
        y: measured.map((p) => p.mean),
        error: measured.map((p) => p.stderr),
        titles: measured.map((p) => `α = ${show(p.alpha)}: ${show(p.mean, 4)}${p.stderr == null ? "" : ` ± ${show(p.stderr, 2)}`}, ${p.seeds} seeds`),
      },
    ],
    handles: [{ at: alpha, value: here_, label: doubt ? `${show(here_)}, known to be off` : show(here_), off: doubt }],
  });
  const entries = [...(off.every(Boolean) ? [] : [{ label: "theory at this n" }]), ...(off.some(Boolean) ? [OFF] : []), { label: "limit n → ∞", kind: "limit", colour: 1 }];
  if (measured.length) entries.push({ label: `simulation, ${measured[0].seeds} seeds`, kind: "points" });
  legend(list, entries);
  const limits = here_ == null ? "" : `, ${show(here_)} at α = ${show(alpha)}${doubt ? ", known to be off by more than 5 %" : ""}`;
  svg.setAttribute("aria-label", `${name === "test_error" ? "Test error" : "Ridge objective"} against α${limits}; without the step ${show(curves.untrained[name])}`);
}

export function learnedFigure(svg, list, { curves, here, points, alpha }) {
  const series = [];
  const entries = [];
  const off = curves.status.map(isOff);
  curves.degrees.forEach((k, i) => {
    series.push({ kind: "level", y: curves.untrained_fraction[k], colour: i });
    series.push({ kind: "line", x: curves.alpha, y: curves.fraction[k], colour: i, label: `degree ${k}`, end: `H${"₁₂₃₄"[k - 1]}`, off });
    const row = points?.learned?.[k];
    if (row) series.push({ kind: "points", x: [alpha], y: [row.mean], error: [row.stderr], colour: i, titles: [`degree ${k}: ${show(row.mean)} ± ${show(row.stderr, 2)}`] });
    entries.push({ label: `degree ${k}`, colour: i });
  });
  entries.push({ label: "without the step", kind: "level", colour: 0 }, ...(off.some(Boolean) ? [OFF] : []));
  const all = finite(curves.degrees.flatMap((k) => [...curves.fraction[k], curves.untrained_fraction[k]]));
  const axis = niceTicks(Math.min(...all) < -0.05 ? Math.min(...all) : 0, Math.max(...all) > 1.05 ? Math.max(...all) : 1, 4);
  draw(svg, {
    x: alphaAxis(curves.alpha),
    y: { ...axis, low: Math.min(axis.low, -0.03), high: Math.max(axis.high, 1.03), format: (t) => `${Math.round(100 * t)} %` },
    right: 26,
    bands: bands().map((b) => ({ ...b, label: "" })),
    verticals: verticals(curves.alpha),
    series,
    handles: [{ at: alpha, value: null }],
  });
  if (points?.learned) entries.push({ label: "simulation", kind: "points" });
  legend(list, entries);
  const words = Object.entries(here?.fraction ?? {}).map(([k, v]) => `${Math.round(100 * v)} % of degree ${k}`);
  svg.setAttribute("aria-label", `Share of each degree learned against α: ${words.join(", ")} at α = ${show(alpha)}`);
}

// Density per unit of log eigenvalue, so that equal areas are equal shares; nothing where there is no bulk.
function perLog(law) {
  const y = law.grid.map((e, i) => (law.density[i] == null ? null : e * law.density[i]));
  const least = 0.004 * Math.max(...finite(y));
  const seen = (i) => y[i] > least;
  return y.map((v, i) => (seen(i) || seen(i - 1) || seen(i + 1) ? v : null));
}

export function spectrumFigure(svg, list, { here, points }) {
  const found = here.spectrum;
  const law = found.trained ?? found.untrained;
  if (!law) return draw(svg, { x: { low: 0.1, high: 10, log: true, ticks: [], label: "eigenvalue" }, y: niceTicks(0, 1), series: [] });
  const before = found.untrained ? perLog(found.untrained) : [];
  const after = found.trained ? perLog(found.trained) : [];
  const histogram = points?.histogram;
  const top = Math.max(...finite(before), ...finite(after), ...(histogram?.density ?? []));
  const weight = before.length ? before : after;
  const grid = found.untrained?.grid ?? law.grid;
  const seen = grid.filter((_, i) => weight[i] > 0.03 * Math.max(...finite(weight)));
  const spikes = [...(found.leading ?? []), ...(found.between ?? [])];
  const low = 10 ** (Math.floor(4 * Math.log10(seen[0] / 1.4)) / 4);
  const high = 10 ** (Math.ceil(4 * Math.log10(1.5 * Math.max(seen.at(-1), found.edge ?? 0, ...spikes))) / 4);
  const series = [];
  const entries = [];
  if (histogram) {
    series.push({ kind: "histogram", x: histogram.edges, y: histogram.density });
    entries.push({ label: "simulation", kind: "bar" });
  }
  if (before.length) {
    if (!after.length) series.push({ kind: "area", x: found.untrained.grid, y: before, colour: 0 });
    series.push({ kind: "line", x: found.untrained.grid, y: before, colour: 4, label: "bulk before", straight: true });
    entries.push({ label: "bulk before", colour: 4 });
  }
  if (after.length) {
    series.push({ kind: "area", x: found.trained.grid, y: after, colour: 0 });
    series.push({ kind: "line", x: found.trained.grid, y: after, label: "bulk after", straight: true });
    entries.push({ label: "bulk after", colour: 0 });
  }
  const inner = (found.between_degrees ?? []).map((k) => (k ? `k = ${k}` : "|x|"));
  const names = [...(found.leading ?? []).map((_, i) => (found.degrees?.[i] ? `k = ${found.degrees[i]}` : "")), ...inner];
  series.push({ kind: "spikes", x: spikes, names, colour: 1 });
  if (spikes.length) entries.push({ label: "spikes", kind: "spike", colour: 1 });
  const measured = points?.spikes ?? [];
  series.push({ kind: "points", x: measured.map((p) => p.mean), y: measured.map(() => 0.05 * top), colour: 1, titles: measured.map((p) => `measured ${show(p.mean, 4)} ± ${show(p.stderr, 2)}`) });
  const ticks = logTicks(low, high);
  const y = niceTicks(0, 1.12 * top, 4);
  draw(svg, {
    x: { low, high, log: true, ticks, format: logName, label: "eigenvalue" },
    y: { ...y, format: (t) => show(t, 2) },
    series,
  });
  legend(list, entries);
  svg.setAttribute("aria-label", `Spectrum of the features; ${found.message || (spikes.length ? `spikes at ${spikes.map((s) => show(s)).join(", ")}` : "no spike")}`);
}

function logName(t) {
  const k = Math.log10(t);
  return Number.isInteger(Math.round(k * 1e9) / 1e9) && (t >= 1000 || t < 0.01) ? `10${superscript(Math.round(k))}` : String(Number(t.toPrecision(2)));
}
