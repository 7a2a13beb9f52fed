// The test error over (α, λ): fuller is less, with the least marked.

import { draw, legend, logTicks, node } from "./chart.js";
import { OFF } from "./figures.js";
import { finite, logName, show } from "./text.js";

export function mapFigure(svg, list, { map, alpha, ridge }) {
  svg.repaint = () => mapFigure(svg, list, { map, alpha, ridge });
  const all = finite(map.test_error.flat());
  const [least, most] = [Math.min(...all), Math.min(Math.max(...all), 3 * Math.min(...all))];
  const edges = (values, of, back) => values.map((v, i) => [of(values[i - 1] ?? v), of(v), of(values[i + 1] ?? v)].map((u, k, all) => (k === 1 ? u : (u + all[1]) / 2))).map(([a, , b]) => [back(a), back(b)]);
  const columns = edges(map.alpha, (v) => v, (v) => v);
  const rows = edges(map.ridge, Math.log10, (v) => 10 ** v);
  const [low, high] = [map.ridge[0], map.ridge.at(-1)];
  const words = (i, j) => `α = ${show(map.alpha[i], 3)}, λ = ${show(map.ridge[j], 2)}${map.off[i][j] ? ", known to be off" : ""}`;
  const cells = map.test_error.flatMap((values, i) => values.map((v, j) => ({ v, x: columns[i], y: rows[j].map(Math.log10), off: map.off[i][j] && v != null, words: words(i, j) })));
  draw(svg, {
    x: { low: map.alpha[0], high: map.alpha.at(-1), ticks: [0, 0.1, 0.2, 0.3, 0.4, 0.5], format: (t) => show(t, 2), label: "α in η = c·n^α" },
    y: { low: Math.log10(low), high: Math.log10(high), ticks: logTicks(low, high).map(Math.log10), format: (t) => logName(10 ** t), spoken: (t) => show(10 ** t, 2) },
    series: [],
  });
  svg.told = [{ label: "test error", x: cells.map((c) => c.words), y: cells.map((c) => c.v) }];
  const { toX, toY, inner } = svg.scale;
  const plot = svg.lastElementChild;
  const place = JSON.stringify([inner, svg.zoom]);
  if (svg.cells?.map !== map || svg.cells.place !== place) svg.cells = { map, place, group: node("g") }; // the handle moves more often
  const { group } = svg.cells;
  plot.append(group);
  for (const { v, x, y, off } of group.childElementCount ? [] : cells) {
    if (v == null) continue;
    const share = Math.min(1, Math.max(0, (most - v) / (most - least || 1)));
    const [left, right, top, foot] = [toX(x[0]), toX(x[1]), toY(y[1]), toY(y[0])].map(Math.round); // no seams
    if (!(right > left && foot > top)) continue;
    const made = node("rect", { class: "cell fill-0", x: left, y: top, width: right - left, height: foot - top, "fill-opacity": (0.04 + 0.86 * share ** 2).toFixed(3) });
    group.append(made);
    if (off) group.append(node("path", { class: "cell-off", d: `M${left} ${foot}L${right} ${top}` }));
  }
  svg.reads = (px, py) => {
    const cell = cells.find(({ v, x, y }) => v != null && px >= toX(x[0]) && px <= toX(x[1]) && py >= toY(y[1]) && py <= toY(y[0]));
    return cell ? [[cell.words, cell.v]] : [];
  };
  const mark = (kind, a, b, text) => {
    const [px, py] = [toX(a), toY(Math.log10(b))];
    if (!(px >= inner.x - 1 && py >= inner.y - 1 && px <= inner.x + inner.w + 1 && py <= inner.y + inner.h + 1)) return;
    plot.append(kind === "best" ? node("path", { class: "best", d: `M${px} ${py - 8}l2.2 5.6l6 .4l-4.6 3.8l1.5 5.8l-5.1 -3.2l-5.1 3.2l1.5 -5.8l-4.6 -3.8l6 -.4z` }) : node("circle", { class: "here-dot", cx: px, cy: py, r: 5 }));
    const left = px > inner.x + inner.w - 90;
    plot.append(node("text", { class: "here-label", x: px + (left ? -11 : 11), y: Math.max(py + 4, inner.y + 12), "text-anchor": left ? "end" : "start" }, text));
  };
  mark("here", alpha, ridge, "");
  if (map.best) mark("best", map.best.alpha, map.best.ridge, show(map.best.test_error));
  legend(list, [{ label: "test error, full colour is low", kind: "area" }, ...(map.best ? [{ label: "least", kind: "best" }] : []), { label: "this problem", kind: "here" }, ...(cells.some((c) => c.off) ? [{ ...OFF, style: "cell-off" }] : [])].map((entry) => ({ ...entry, fixed: true })));
  const best = map.best ? `least ${show(map.best.test_error)} at α = ${show(map.best.alpha)}, λ = ${show(map.best.ridge, 2)}` : "every number is known to be off by more than 5 %";
  svg.setAttribute("aria-label", `Test error for every step and penalty: ${best}`);
}
