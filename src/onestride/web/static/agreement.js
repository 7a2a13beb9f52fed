// How well theory and simulation agree over a store: one sentence, and a map with a cell for each pair of values.

import { draw, legend, node } from "./chart.js";
import { finite, show } from "./text.js";

const CLOSE = 0.02; // of the measured value, or three standard errors: whichever is more

export const gap = ({ mean, theory }) => (mean == null || theory == null || mean === 0 ? null : theory / mean - 1);
const close = (q) => Math.abs(q.theory - q.mean) <= Math.max(3 * (q.stderr ?? 0), CLOSE * Math.abs(q.mean));
const inPercent = (x) => `${show(100 * x, 2)} %`;

export function agreement(rows, quantity, describe) {
  const both = rows.filter((row) => gap(row[quantity]) != null);
  const sure = both.filter((row) => row.status !== "inaccurate");
  if (!both.length) return "Nothing is both measured and predicted.";
  const marked = both.length - sure.length;
  const off = marked ? ` ${marked} more ${marked === 1 ? "is" : "are"} known to be off.` : "";
  if (!sure.length) return `Every prediction here is known to be off.`;
  const sizes = sure.map((row) => Math.abs(gap(row[quantity]))).sort((a, b) => a - b);
  const worst = sure.find((row) => Math.abs(gap(row[quantity])) === sizes.at(-1));
  const good = sure.filter((row) => close(row[quantity])).length;
  return `Theory is within 2 % or three standard errors in ${good} of ${sure.length}; median gap ${inPercent(sizes[Math.floor(sizes.length / 2)])}, largest ${inPercent(sizes.at(-1))} at ${describe(worst)}.${off}`;
}

// Cells of equal size: what varies may be a number or a name. Values: darker is less; gaps: darker is more.
export function heatMap(svg, list, { rows, x, by, quantity, gaps, values, text, words }) {
  const of = (row) => (gaps ? gap(row[quantity]) : row[quantity].mean ?? row[quantity].theory);
  const cells = rows.map((row) => ({ row, i: values[x].indexOf(row[x]), j: by ? values[by].indexOf(row[by]) : 0, v: of(row) })).filter(({ v }) => v != null);
  const axis = (field, label) => {
    const ticks = (field ? values[field] : [""]).map((_, i) => i);
    const every = Math.ceil(ticks.length / 12);
    return { low: -0.5, high: ticks.length - 0.5, ticks: ticks.filter((t) => t % every === 0), format: (t) => (field ? text(values[field][t]) : ""), label };
  };
  draw(svg, { x: axis(x, words(x)), y: axis(by, words(by)), series: [] });
  svg.told = [{ label: gaps ? "theory over simulation − 1" : quantity, x: cells.map(({ row }) => [x, by].filter(Boolean).map((f) => `${f} = ${row[f]}`).join(", ")), y: cells.map((c) => c.v) }];
  const sizes = finite(cells.map(({ v }) => (gaps ? Math.abs(v) : v)));
  const [least, most] = [Math.min(...sizes), Math.max(...sizes)];
  const { toX, toY } = svg.scale;
  for (const { i, j, v } of cells) {
    const share = ((gaps ? Math.abs(v) : v) - (gaps ? 0 : least)) / (most - (gaps ? 0 : least) || 1);
    const box = { x: toX(i - 0.5) + 0.5, y: toY(j + 0.5) + 0.5, width: toX(i + 0.5) - toX(i - 0.5) - 1, height: toY(j - 0.5) - toY(j + 0.5) - 1 };
    if (!(box.width > 0 && box.height > 0)) continue;
    const dark = 0.04 + 0.8 * (gaps ? share : 1 - share);
    svg.append(node("rect", { class: `cell fill-${gaps ? 1 : 0}`, ...box, "fill-opacity": dark.toFixed(3) }));
    if (box.width > 44 && box.height > 15) svg.append(node("text", { class: dark > 0.5 ? "cell-label on-dark" : "cell-label", x: toX(i), y: toY(j) + 4, "text-anchor": "middle" }, gaps ? inPercent(v) : show(v)));
  }
  svg.reads = (px, py) => {
    const [i, j] = [Math.round(svg.scale.fromX(px)), Math.round(svg.scale.fromY(py))];
    const q = cells.find((c) => c.i === i && c.j === j)?.row[quantity];
    return q ? [["simulation", q.mean, q.stderr], ["theory", q.theory]].filter(([, v]) => v != null) : [];
  };
  legend(list, [{ label: gaps ? "theory over simulation, full colour is far apart" : "simulation, or theory alone; full colour is low", kind: "area", colour: gaps ? 1 : 0, fixed: true }]);
}
