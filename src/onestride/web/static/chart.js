// One chart: lines, points with error bars, a histogram and straight lines, drawn as SVG from plain numbers. What the legend has
// switched off is left out; a figure that is zoomed keeps its part of the axes until they mean something else.

import { show } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";

export function node(tag, attributes = {}, text = null) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) if (value != null) made.setAttribute(name, value);
  if (text != null) made.textContent = text;
  return made;
}

const round = (x) => Math.round(x * 10) / 10;
const FAR = 1e7; // pixels: a place in an SVG is a number of single precision
const within = (place) => Math.max(-FAR, Math.min(FAR, place));

export function niceTicks(low, high, count = 5) {
  const span = high - low;
  if (!(span > 0)) {
    const room = Math.abs(low) / 2 || 0.5; // all values are equal
    return { low: low - room, high: high + room, ticks: [low], format: (x) => show(x, 4) };
  }
  const raw = span / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
  const from = Math.floor(low / step + 1e-9) * step;
  const to = Math.ceil(high / step - 1e-9) * step;
  const ticks = [];
  for (let k = 0; from + k * step <= to + step / 1e6; k++) ticks.push(from + k * step);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9) + (step / power === 2.5 ? 1 : 0));
  const most = Math.max(Math.abs(from), Math.abs(to));
  const apart = Math.floor(Math.log10(most) + 1e-9) - Math.floor(Math.log10(step) + 1e-9) + (step / power === 2.5 ? 1 : 0);
  const plain = most >= 1e-4 && most < 1e7; // elsewhere in powers of ten, with as many digits as tell ticks apart
  const format = (x) => (plain ? x.toFixed(digits).replace("-", "−") : show(x, 2 + apart));
  return { low: from, high: to, ticks, format: (x) => format(Math.abs(x) < step / 1e6 ? 0 : x) };
}

export function logTicks(low, high) {
  const ticks = [];
  for (let k = Math.ceil(Math.log10(low)); k <= Math.log10(high); k++) ticks.push(10 ** k);
  if (ticks.length > 6) return ticks.filter((_, i) => i % Math.ceil(ticks.length / 6) === 0);
  if (ticks.length < 3)
    for (let k = Math.floor(Math.log10(low)); k <= Math.log10(high); k++)
      for (const m of [2, 5]) if (m * 10 ** k >= low && m * 10 ** k <= high) ticks.push(m * 10 ** k);
  return ticks.sort((a, b) => a - b);
}

// A smooth line through the points that adds no maximum or minimum of its own (Fritsch and Carlson 1980).
export function smoothPath(points) {
  const n = points.length;
  if (n === 0) return "";
  const slope = [];
  for (let i = 0; i + 1 < n; i++) slope.push((points[i + 1][1] - points[i][1]) / (points[i + 1][0] - points[i][0]));
  const tangent = points.map((_, i) => {
    if (i === 0) return slope[0];
    if (i === n - 1) return slope[n - 2];
    return slope[i - 1] * slope[i] <= 0 ? 0 : (2 * slope[i - 1] * slope[i]) / (slope[i - 1] + slope[i]);
  });
  let path = `M${round(points[0][0])} ${round(points[0][1])}`;
  for (let i = 0; i + 1 < n; i++) {
    const third = (points[i + 1][0] - points[i][0]) / 3;
    const [x0, y0] = points[i];
    const [x1, y1] = points[i + 1];
    const c = [x0 + third, y0 + third * tangent[i], x1 - third, y1 - third * tangent[i + 1], x1, y1].map(round);
    path += `C${c[0]} ${c[1]} ${c[2]} ${c[3]} ${c[4]} ${c[5]}`;
  }
  return path;
}

// Runs of finite points, in pixels.
function pieces(x, y, toX, toY) {
  const found = [];
  let run = [];
  x.forEach((at, i) => {
    if (at != null && y[i] != null && Number.isFinite(y[i])) run.push([toX(at), toY(y[i])]);
    else if (run.length) found.push(run), (run = []);
  });
  if (run.length) found.push(run);
  return found;
}

const MARKERS = {
  0: (x, y) => `M${x - 3.4} ${y}a3.4 3.4 0 1 0 6.8 0a3.4 3.4 0 1 0 -6.8 0`,
  1: (x, y) => `M${x - 3} ${y - 3}h6v6h-6z`,
  2: (x, y) => `M${x} ${y - 4}l3.8 6.6h-7.6z`,
  3: (x, y) => `M${x} ${y - 4.2}l4.2 4.2l-4.2 4.2l-4.2 -4.2z`,
};

// The part of an axis that is looked at, with ticks of its own.
function lookedAt(axis, part) {
  if (!part) return axis;
  const [low, high] = part;
  if (axis.log) return { ...axis, low, high, ticks: logTicks(low, high) };
  const nice = niceTicks(low, high, 5);
  const format = axis.spoken ?? nice.format;
  return { ...axis, low, high, ticks: nice.ticks.filter((t) => t >= low && t <= high), format };
}

// Whoever moves on to a problem beyond the part that is looked at sees all of the figure again.
const inSight = ({ at, value }, { x, y }) => at >= x[0] && at <= x[1] && (value == null || (value >= y[0] && value <= y[1]));

export function draw(svg, spec) {
  const [seenWidth, seenHeight] = svg.size ?? [svg.clientWidth, svg.clientHeight];
  const [width, height] = [seenWidth || 400, seenHeight || 260];
  const meaning = `${spec.x.label} ${spec.y.label ?? ""}`;
  if (svg.zoom?.meaning !== meaning || !(spec.handles ?? []).every((handle) => inSight(handle, svg.zoom))) svg.zoom = null;
  const [x, y] = [lookedAt(spec.x, svg.zoom?.x), lookedAt(spec.y, svg.zoom?.y)];
  const longest = Math.max(0, ...y.ticks.map((t) => widthOf(y.format(t))));
  const margin = { left: Math.max(50, 10 + longest), right: spec.right ?? 14, top: 22, bottom: 39 };
  const inner = { x: margin.left, y: margin.top, w: Math.max(0, width - margin.left - margin.right), h: Math.max(0, height - margin.top - margin.bottom) };
  const series = spec.series.filter((s) => !svg.off?.has(s.group ?? s.label));
  const fx = x.log ? Math.log10 : (v) => v;
  const toX = (v) => within(inner.x + (inner.w * (fx(v) - fx(x.low))) / (fx(x.high) - fx(x.low)));
  const toY = (v) => within(inner.y + inner.h * (1 - (v - y.low) / (y.high - y.low)));
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const parts = [];
  const add = (tag, attributes, text) => parts.push(node(tag, attributes, text)) && parts.at(-1);

  const clip = `clip-${svg.id}`;
  const frame = node("clipPath", { id: clip });
  const room = svg.zoom ? [0, 0] : [margin.right, 6]; // names stand beside the ends of lines
  frame.append(node("rect", { x: inner.x, y: inner.y - room[1], width: inner.w + room[0], height: inner.h + 2 * room[1] }));
  parts.push(frame);

  (spec.bands ?? []).forEach(({ from, to, label, shaded }) => {
    const [a, b] = [toX(Math.max(from, x.low)), toX(Math.min(to, x.high))];
    if (!(b > a)) return;
    if (shaded) add("rect", { class: "band", x: a, y: inner.y, width: b - a, height: inner.h });
    if (label && b - a > 22) add("text", { class: "band-label", x: (a + b) / 2, y: inner.y + 11, "text-anchor": "middle" }, label);
  });
  let last = -Infinity; // where the name before ends
  (spec.verticals ?? []).forEach(({ at, label, foot, kind = "threshold" }) => {
    if (at < x.low || at > x.high) return;
    if (foot) add("text", { class: "foot-label", x: toX(at) + 4, y: inner.y + inner.h - 6 }, foot);
    add("line", { class: kind, x1: toX(at), x2: toX(at), y1: inner.y, y2: inner.y + inner.h });
    if (!label || toX(at) - widthOf(label) / 2 < last) return;
    last = toX(at) + widthOf(label) / 2 + 3;
    add("text", { class: "tick-label", x: toX(at), y: inner.y - 7, "text-anchor": "middle" }, label);
  });

  y.ticks.filter((t) => t >= y.low && t <= y.high).forEach((t) => {
    add("line", { class: "grid", x1: inner.x, x2: inner.x + inner.w, y1: toY(t), y2: toY(t) });
    add("text", { class: "tick-label", x: inner.x - 7, y: toY(t) + 3.5, "text-anchor": "end" }, y.format(t));
  });
  x.ticks.filter((t) => t >= x.low - 1e-12 && t <= x.high * (1 + 1e-12) + 1e-12).forEach((t) => {
    add("line", { class: "axis", x1: toX(t), x2: toX(t), y1: inner.y + inner.h, y2: inner.y + inner.h + 4 });
    add("text", { class: "tick-label", x: toX(t), y: inner.y + inner.h + 15, "text-anchor": "middle" }, x.format(t));
  });
  add("path", { class: "axis", d: `M${inner.x} ${inner.y}V${inner.y + inner.h}H${inner.x + inner.w}` });
  const name = add("text", { class: "axis-label", x: inner.x + inner.w / 2, y: height - 5, "text-anchor": "middle" });
  let line = 0; // that is written on; a piece without letters would not move it
  const piece = (words, at, attributes = {}) => {
    if (!words) return;
    name.append(node("tspan", { dy: at - line, ...attributes }, words));
    line = at;
  };
  for (const [, words, sign, small] of x.label.matchAll(/([^^_]*)(?:([\^_])(\S))?/g)) {
    piece(words, 0);
    piece(small, sign === "^" ? -5 : 3, { class: "small" });
  }

  const plot = node("g", { "clip-path": `url(#${clip})` });
  parts.push(plot);
  const put = (tag, attributes, text) => plot.appendChild(node(tag, attributes, text));
  const nameWidth = (label) => 7.4 * (label ?? "").length;
  const beside = (at, label) => toX(at) + Math.max(60, 9 + nameWidth(label)) > inner.x + inner.w; // the handle's name stands left of it there
  const reserved = (spec.handles ?? []).filter(({ value, label }) => value != null && label).map(({ at, value, label }) => {
    const w = nameWidth(label);
    return { x: toX(at) + (beside(at, label) ? -9 - w : 9), y: toY(value) - 8, w };
  });
  const marks = series.flatMap((s) => obstacles(s, toX, toY));
  drawHorizontals(spec.horizontals ?? [], { put, toY, y, inner, reserved, marks });

  const ends = [];
  for (const s of series) drawSeries(s, { put, toX, toY, y, inner, ends });
  let lowest = Infinity; // names at the ends of lines, from the bottom up, none on top of another
  for (const { at, colour, text } of ends.sort((a, b) => b.at[1] - a.at[1])) {
    lowest = Math.min(at[1] + 3.5, lowest - 13);
    put("text", { class: `end-label fill-${colour}`, x: at[0] + 5, y: lowest }, text);
  }
  (spec.handles ?? []).forEach(({ at, value, label, off }) => {
    if (at == null || !(at >= x.low - 1e-12 && at <= x.high + 1e-12)) return; // nor where it is no number
    put("line", { class: "here", x1: toX(at), x2: toX(at), y1: inner.y, y2: inner.y + inner.h });
    if (value == null) return;
    put("circle", { class: off ? "here-dot off" : "here-dot", cx: toX(at), cy: toY(value), r: 5 });
    const left = beside(at, label);
    if (label)
      put("text", { class: "here-label", x: toX(at) + (left ? -9 : 9), y: toY(value) - 8, "text-anchor": left ? "end" : "start" }, label);
  });
  svg.replaceChildren(...parts);
  svg.closest("figure").classList.toggle("zoomed", Boolean(svg.zoom));
  svg.told = series.filter((s) => s.label && s.x?.length); // what is read out on hover and written as CSV
  const share = (py) => Math.min(1, Math.max(0, 1 - (py - inner.y) / inner.h));
  svg.scale = { inner, toX, toY, x, y, meaning, fromX: (px) => unscale(px, inner, x), fromY: (py) => y.low + share(py) * (y.high - y.low) };
  queueMicrotask(() => svg.reread?.()); // once all of it is drawn
}

// Boxes around points and along lines, which names keep clear of where they can.
function obstacles(s, toX, toY) {
  const box = (px, py) => ({ x: px - 6, y: py + 6, w: 12 });
  const along = ([x0, y0], [x1, y1]) => {
    const steps = Math.max(1, Math.ceil(Math.abs(x1 - x0) / 12));
    return Array.from({ length: steps + 1 }, (_, k) => box(x0 + ((x1 - x0) * k) / steps, y0 + ((y1 - y0) * k) / steps));
  };
  if (s.kind === "points") return pieces(s.x, s.y, toX, toY).flat().map(([px, py]) => box(px, py));
  if (s.kind === "line") return pieces(s.x, s.y, toX, toY).flatMap((run) => run.slice(1).flatMap((to, i) => along(run[i], to)));
  if (s.kind === "stairs") return s.x.flatMap(([from, to], i) => (s.y[i] == null ? [] : along([toX(from), toY(s.y[i])], [toX(to), toY(s.y[i])])));
  return [];
}

const THROUGH = 4; // a straight line through a name is as bad as so many pieces of a curve
const widthOf = (text) => 5.9 * text.length; // of 11 px letters, on the safe side

// Names of lines that lie close to one another, none on top of another: each at the right or the left end of its line, or lifted.
function drawHorizontals(lines, { put, toY, y, inner, reserved, marks }) {
  const shown = lines.filter(({ at }) => at != null);
  const taken = [...reserved]; // boxes
  const apart = (box, t) => box.x + box.w <= t.x || t.x + t.w <= box.x || box.y - 11 >= t.y || t.y - 11 >= box.y;
  const clear = (foot) => heightOf.every((line) => line < foot - 10 || line > foot + 3.5);
  const crossed = (box) => marks.filter((mark) => !apart(box, mark)).length + (clear(box.y) ? 0 : THROUGH);
  const write = (text, places) => {
    const w = widthOf(text);
    const left = { end: inner.x + inner.w - 2 - w, start: inner.x + 6, middle: inner.x + (inner.w - w) / 2 };
    const boxes = places.map(({ side, y: foot, far = 0 }) => ({ x: left[side], y: foot, w, side, far }));
    const free = boxes.filter((b) => taken.every((t) => apart(b, t))).map((b) => ({ ...b, cost: b.far + crossed(b) }));
    const box = free.sort((a, b) => a.cost - b.cost)[0]; // the sort is stable: the first of those that cross least
    if (!box) return false;
    taken.push(box);
    const shift = { end: w, start: 0, middle: w / 2 }[box.side];
    put("text", { class: "baseline-label", x: box.x + shift, y: box.y, "text-anchor": box.side }, text);
    return true;
  };
  const inRows = (named, sign = "") => {
    const rows = [];
    for (const name of named.map(({ at, label }) => `${label} ${show(at)}`)) {
      if (rows.length && widthOf(`${rows.at(-1)}, ${name}`) < inner.w - 20) rows[rows.length - 1] += `, ${name}`;
      else rows.push(`${sign}${name}`);
    }
    return rows;
  };
  const anywhere = (foot, far = 0, sides = ["end", "start", "middle"]) => sides.map((side) => ({ side, y: foot, far }));
  const beyond = (sign, outside, first, step) => {
    const rows = inRows(outside.sort((a, b) => a.at - b.at), `${sign} `);
    const heights = [0, 1, 2, 3, 4, 5].map((k) => first + step * k).filter((foot) => heightOf.every((line) => line < foot - 11 || line > foot + 3));
    rows.forEach((row) => write(row, (heights.length ? heights : [first]).flatMap((foot) => anywhere(foot, 0, ["start", "end", "middle"]))));
  };
  const inside = shown.filter(({ at }) => at >= y.low && at <= y.high).sort((a, b) => a.at - b.at);
  const heightOf = inside.map(({ at }) => toY(at));
  for (const { at, style = 1 } of inside) put("line", { class: `baseline dash-${style}`, x1: inner.x, x2: inner.x + inner.w, y1: toY(at), y2: toY(at) });
  const within = (foot) => foot > inner.y + 9 && foot < inner.y + inner.h - 2;
  const homeless = inside.filter(({ at, label }) => {
    const line = toY(at);
    const strange = (foot) => heightOf.some((other) => other !== line && Math.abs(other - foot + 4) < Math.abs(line - foot + 4)); // it would seem to name that one
    const heights = [line - 4, line + 12, line - 16, line + 24, line - 28];
    return !write(label, heights.flatMap((foot, k) => (within(foot) && !strange(foot) ? anywhere(foot, k < 2 ? 0 : 2 * THROUGH) : [])));
  });
  const above = homeless.length ? toY(homeless.at(-1).at) - 4 : 0; // with their values, as near as there is room
  for (const row of inRows(homeless)) write(row, Array.from({ length: 12 }, (_, k) => above - 6 * k).filter(within).flatMap((foot, k) => anywhere(foot, k)));
  beyond("↓", shown.filter(({ at }) => at < y.low), inner.y + inner.h - 6, -12);
  beyond("↑", shown.filter(({ at }) => at > y.high), inner.y + 25, 12);
}

function unscale(px, inner, x) {
  const share = Math.min(1, Math.max(0, (px - inner.x) / inner.w));
  if (!x.log) return x.low + share * (x.high - x.low);
  return 10 ** (Math.log10(x.low) + share * (Math.log10(x.high) - Math.log10(x.low)));
}

function drawSeries(s, { put, toX, toY, y, inner, ends }) {
  const colour = s.colour ?? 0;
  if (s.kind === "line") {
    const marked = s.off?.some(Boolean);
    const near = (i) => s.off[i] || s.off[i - 1] || s.off[i + 1];
    const line = (values, style) => {
      for (const run of pieces(s.x, values, toX, toY)) {
        const path = s.straight ? "M" + run.map((p) => p.map(round).join(" ")).join("L") : smoothPath(run);
        put("path", { class: `curve colour-${colour} ${style}`, d: path, "data-series": s.label });
      }
    };
    line(marked ? s.y.map((v, i) => (s.off[i] ? null : v)) : s.y, s.style ?? `dash-${colour}`);
    if (marked) line(s.y.map((v, i) => (near(i) ? v : null)), "off"); // known to be off
    const last = pieces(s.x, s.y, toX, toY).at(-1)?.at(-1);
    if (s.end && last && last[0] <= inner.x + inner.w + 1) ends.push({ at: last, colour, text: s.end });
  } else if (s.kind === "level") {
    if (s.y != null) put("line", { class: `level colour-${colour}`, x1: inner.x, x2: inner.x + inner.w, y1: toY(s.y), y2: toY(s.y) });
  } else if (s.kind === "stairs") {
    s.x.forEach(([from, to], i) => {
      if (s.y[i] != null)
        put("line", { class: `limit colour-${colour}`, x1: toX(from) + 1, x2: toX(to) - 1, y1: toY(s.y[i]), y2: toY(s.y[i]) });
    });
  } else if (s.kind === "area") {
    for (const run of pieces(s.x, s.y, toX, toY)) {
      const base = toY(Math.max(y.low, 0));
      const line = run.map((p) => p.map(round).join(" ")).join("L");
      put("path", { class: `area fill-${colour}`, d: `M${round(run[0][0])} ${base}L${line}L${round(run.at(-1)[0])} ${base}Z` });
    }
  } else if (s.kind === "histogram") {
    s.y.forEach((v, i) => {
      const [a, b] = [toX(s.x[i]), toX(s.x[i + 1])];
      if (v > 0 && b > inner.x) put("rect", { class: "bar", x: a, y: toY(v), width: Math.max(b - a - 0.5, 0.5), height: toY(0) - toY(v) });
    });
  } else if (s.kind === "spikes") {
    let last = Infinity;
    let level = 0;
    s.x.forEach((at, i) => {
      const [px, foot] = [toX(at), inner.y + inner.h];
      level = last - px < 44 ? level + 1 : 0; // names of close neighbours at different heights, beside the taller arrow
      last = px;
      const top = inner.y + 26 + 24 * level;
      put("path", { class: `spike colour-${colour}`, d: `M${px} ${foot}V${top + 7}M${px - 4.5} ${top + 9}L${px} ${top}L${px + 4.5} ${top + 9}` });
      if (s.names?.[i]) put("text", { class: "spike-label", x: level ? px - 9 : px, y: level ? top + 7 : top - 5, "text-anchor": level ? "end" : "middle" }, s.names[i]);
    });
  } else if (s.kind === "dots") {
    const path = s.x.map((at, i) => `M${round(toX(at))} ${round(toY(s.y[i]))}h0`).join("");
    if (path) put("path", { class: `dots colour-${colour}`, d: path, "data-series": s.label });
  } else if (s.kind === "points") {
    s.x.forEach((at, i) => {
      if (s.y[i] == null) return;
      const [px, py, e] = [toX(at), toY(s.y[i]), s.error?.[i]];
      if (e != null) {
        const [top, foot] = [toY(s.y[i] + e), toY(s.y[i] - e)];
        put("path", { class: `bar-line colour-${colour}`, d: `M${px} ${foot}V${top}M${px - 3} ${top}h6M${px - 3} ${foot}h6` });
      }
      put("path", { class: `mark colour-${colour}`, d: MARKERS[colour % 4](round(px), round(py)) }).append(node("title", {}, s.titles?.[i] ?? ""));
    });
  }
}

// Each entry is a switch of the series of its group (or of its own name); what a figure has no series for is only told.
export function legend(list, entries, svg = list.closest("figure").querySelector("svg[role=img]")) {
  const text = JSON.stringify(entries);
  if (list.dataset.entries === text) return;
  list.dataset.entries = text;
  list.replaceChildren(
    ...entries.map(({ label, kind, colour = 0, style, group = label, fixed }) => {
      const item = document.createElement("li");
      const key = node("svg", { viewBox: "0 0 26 12", width: 26, height: 12, "aria-hidden": "true" });
      if (kind === "points") key.append(node("path", { class: `mark colour-${colour}`, d: MARKERS[colour % 4](13, 6) }));
      else if (kind === "dots") key.append(node("path", { class: `dots colour-${colour}`, d: "M6 8h0M13 4h0M20 7h0" }));
      else if (kind === "bar") key.append(node("rect", { class: "bar", x: 4, y: 2, width: 18, height: 9 }));
      else if (kind === "area") key.append(node("rect", { class: `cell fill-${colour}`, x: 4, y: 1, width: 18, height: 10, "fill-opacity": 0.8 }));
      else if (kind === "best") key.append(node("path", { class: "best", d: "M13 0l1.7 4l4.3 .3l-3.3 2.7l1.1 4.2l-3.8 -2.3l-3.8 2.3l1.1 -4.2l-3.3 -2.7l4.3 -.3z" }));
      else if (kind === "here") key.append(node("circle", { class: "here-dot", cx: 13, cy: 6, r: 4 }));
      else if (kind === "spike") key.append(node("path", { class: `spike colour-${colour}`, d: "M13 12V4M9 7L13 1L17 7" }));
      else if (kind === "level") key.append(node("line", { class: `level colour-${colour}`, x1: 1, x2: 25, y1: 6, y2: 6 }));
      else if (kind === "limit") key.append(node("line", { class: `limit colour-${colour}`, x1: 1, x2: 25, y1: 6, y2: 6 }));
      else key.append(node("path", { class: `curve colour-${colour} ${style ?? `dash-${colour}`}`, d: "M1 6H25" }));
      if (fixed) item.append(key, label);
      else item.append(toggle(svg, group, key, label));
      return item;
    }),
  );
}

function toggle(svg, group, ...words) {
  const button = document.createElement("button");
  button.type = "button";
  button.title = "Show or hide";
  button.setAttribute("aria-pressed", String(!svg.off?.has(group)));
  button.append(...words);
  button.addEventListener("click", () => {
    svg.off ??= new Set();
    if (!svg.off.delete(group)) svg.off.add(group);
    button.setAttribute("aria-pressed", String(!svg.off.has(group)));
    svg.repaint?.();
  });
  return button;
}
