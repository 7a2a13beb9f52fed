// What a simulation saw of the network itself, with what theory says of it: leading vectors of F, and the neurons along β.

import { draw, legend, niceTicks } from "./chart.js";
import { hermiteSum } from "./figures.js";
import { finite, show } from "./text.js";

const MOST_VECTORS = 3;
const LOW = "₁₂₃";
const STEPS = 61;

// The function of z that theory knows of the k-th vector: its parts along H_j of the parity of its degree, as those of a power.
// Degree 0 is a constant or the length of x, which is no function of z.
export function partsOf({ degrees = [], overlaps = [] }, k) {
  const degree = degrees[k];
  const squares = overlaps[k];
  if (degree == null || !squares?.every((v) => v != null) || (degree === 0 && squares[0] < 0.5)) return null;
  return squares.map((square, j) => ((degree - j) % 2 === 0 && j <= degree ? Math.sqrt(Math.max(square, 0)) : 0));
}

export function vectorsFigure(svg, list, { here, points }) {
  const [found, drawn] = [here?.spectrum ?? {}, points?.network];
  const count = Math.min(MOST_VECTORS, Math.max(found.leading?.length ?? 0, points?.spikes?.length ?? 0, drawn ? 1 : 0));
  const z = Array.from({ length: STEPS }, (_, i) => -3 + (6 * i) / (STEPS - 1));
  const series = [];
  const entries = [];
  for (let k = 0; k < count; k++) {
    const name = `√n·u${LOW[k]}`;
    const parts = partsOf(found, k);
    if (drawn?.vectors[k]) series.push({ kind: "dots", x: drawn.z, y: drawn.vectors[k], colour: k, label: `${name}, simulated`, group: name });
    if (parts) series.push({ kind: "line", x: z, y: z.map((at) => hermiteSum(parts, at)), colour: k, label: `${name}, theory`, group: name, straight: true });
    entries.push({ label: found.degrees?.[k] ? `${name}, k = ${found.degrees[k]}` : name, group: name, colour: k, ...(parts ? {} : { kind: "dots" }) });
  }
  const size = Math.min(6, Math.max(2, ...finite(series.flatMap((s) => s.y)).map(Math.abs)));
  draw(svg, { x: { low: -3, high: 3, ticks: [-3, -2, -1, 0, 1, 2, 3], format: (t) => show(t, 2), label: "β̂^⊤x" }, y: niceTicks(-size, size, 4), series });
  legend(list, entries);
  svg.setAttribute("aria-label", `Leading left singular vectors of the features against X̃β: ${entries.map((e) => e.label).join("; ") || (here?.spectrum ? "none leaves the bulk" : "nothing is known of them")}`);
}

export function neuronsFigure(svg, list, { here, points, values }) {
  const drawn = points?.network;
  const [c1, root] = [here.activation[1], Math.sqrt(here.N)];
  const before = here.no_direction ? null : values.gradient === "full" ? -c1 / (here.length * root) : 0; // of β = Xᵀ(y − f₀)/n the part along W₀ᵀa
  const slope = here.steps === 1 && before != null ? before + (c1 * here.eta * here.length) / root : null;
  const x = [-3, 3];
  const series = [
    { kind: "dots", x: drawn?.readout ?? [], y: drawn?.before ?? [], colour: 4, label: "before, simulated", group: "before" },
    { kind: "dots", x: drawn?.readout ?? [], y: drawn?.after ?? [], colour: 0, label: "after, simulated", group: "after" },
  ];
  if (before != null) series.push({ kind: "line", x, y: x.map((at) => before * at), colour: 4, label: "before, theory", group: "before", straight: true });
  if (slope != null) series.push({ kind: "line", x, y: x.map((at) => slope * at), colour: 0, label: "after, theory", group: "after", straight: true });
  const most = Math.max(3 / Math.sqrt(here.d), 3 * Math.abs(slope ?? 0), ...(drawn ? [...drawn.before, ...drawn.after].map(Math.abs) : []));
  draw(svg, { x: { low: -3, high: 3, ticks: [-3, -2, -1, 0, 1, 2, 3], format: (t) => show(t, 2), label: "√N·a_j" }, y: niceTicks(-most, most, 4), series });
  legend(list, [{ label: "W₀", group: "before", colour: 4 }, { label: "after the step", group: "after", colour: 0 }]);
  svg.setAttribute("aria-label", `Neurons along β against their readout weight${slope == null ? "" : `: slope ${show(before)} before, ${show(slope)} after the step`}`);
}
