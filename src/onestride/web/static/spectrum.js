// The spectrum of the features before and after the step, with what was measured.

import { draw, legend, niceTicks, logTicks } from "./chart.js";
import { finite, logName, show } from "./text.js";

// Density per unit of log eigenvalue, so that equal areas are equal shares; nothing where there is no bulk.
function perLog(law) {
  const y = law.grid.map((e, i) => (law.density[i] == null ? null : e * law.density[i]));
  const least = 0.004 * Math.max(...finite(y));
  const seen = (i) => y[i] > least;
  return y.map((v, i) => (seen(i) || seen(i - 1) || seen(i + 1) ? v : null));
}

export function spectrumFigure(svg, list, { here, points }) {
  const found = here?.spectrum ?? {};
  const law = found.trained ?? found.untrained;
  if (!law && !points?.histogram) return draw(svg, { x: { low: 0.1, high: 10, log: true, ticks: [], label: "eigenvalue" }, y: niceTicks(0, 1), series: [] });
  const before = found.untrained ? perLog(found.untrained) : [];
  const after = found.trained ? perLog(found.trained) : [];
  const off = here?.status === "inaccurate";
  const histogram = points?.histogram;
  const top = Math.max(...finite(before), ...finite(after), ...(histogram?.density ?? []));
  const weight = before.length ? before : after.length ? after : histogram.density;
  const grid = found.untrained?.grid ?? law?.grid ?? histogram.edges.slice(1);
  const seen = grid.filter((_, i) => weight[i] > 0.03 * Math.max(...finite(weight)));
  const measured = points?.spikes ?? [];
  const spikes = [...(found.leading ?? []), ...(found.between ?? [])];
  const low = 10 ** (Math.floor(4 * Math.log10(seen[0] / 1.4)) / 4);
  const high = 10 ** (Math.ceil(4 * Math.log10(1.5 * Math.max(seen.at(-1), found.edge ?? 0, ...spikes, ...(law ? [] : measured.map((p) => p.mean))))) / 4);
  const series = [];
  const entries = [];
  if (histogram) {
    series.push({ kind: "histogram", x: histogram.edges, y: histogram.density, label: "simulation" });
    entries.push({ label: "simulation", kind: "bar" });
  }
  if (before.length) {
    if (!after.length) series.push({ kind: "area", x: found.untrained.grid, y: before, colour: 0, group: "bulk before" });
    series.push({ kind: "line", x: found.untrained.grid, y: before, colour: 4, label: "bulk before", straight: true });
    entries.push({ label: "bulk before", colour: 4 });
  }
  if (after.length) {
    series.push({ kind: "area", x: found.trained.grid, y: after, colour: 0, group: "bulk after" });
    series.push({ kind: "line", x: found.trained.grid, y: after, label: "bulk after", straight: true, off: off ? after.map(() => true) : null });
    entries.push({ label: `bulk after${off ? ", known to be off" : ""}`, colour: 0, style: off ? "off" : undefined, group: "bulk after" });
  }
  const inner = (found.between_degrees ?? []).map((k) => (k ? `k = ${k}` : "|x|"));
  const names = [...(found.leading ?? []).map((_, i) => (found.degrees?.[i] ? `k = ${found.degrees[i]}` : "")), ...inner];
  series.push({ kind: "spikes", x: spikes, y: spikes.map(() => 0), names, colour: 1, label: "spikes" });
  if (spikes.length) entries.push({ label: "spikes", kind: "spike", colour: 1 });
  series.push({ kind: "points", x: measured.map((p) => p.mean), y: measured.map(() => 0.05 * top), colour: 1, group: "simulation", titles: measured.map((p) => `measured ${show(p.mean, 4)} ± ${show(p.stderr, 2)}`) });
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
