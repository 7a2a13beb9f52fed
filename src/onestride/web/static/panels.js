// Panels computed on request, part by part: the best step, penalty and split; a learning curve; the atlas. What was asked is in the
// address, after the #, and is computed again when it is opened.

import { draw, legend, logTicks, niceTicks, node } from "./chart.js";
import { ask } from "./net.js";
import { addFiles, readOut } from "./readout.js";
import { asSentence, element, finite, logName, minus, percent, show } from "./text.js";

const AXES = { n: "samples n", d: "inputs d", N: "neurons N", phi: "φ = d/n", psi: "ψ = d/N", noise: "noise σ_ε" };

// ------------------------------------------------------------------ one panel

class Panel {
  constructor(owner, id, title, words) {
    Object.assign(this, { owner, id, title, found: [], asked: null, told: "" });
    this.button = element("button", { type: "submit", class: "primary", text: "Compute" });
    this.end = element("button", { type: "button", text: "Cancel", hidden: true });
    this.progress = element("progress", { max: 1, value: 0, hidden: true, "aria-label": `Progress of: ${title}` });
    this.state = element("span", { class: "panel-state", role: "status" });
    this.form = element("form", { class: "panel-form", "aria-label": title }, ...this.options(), this.button, this.progress, this.end, this.state);
    this.words = element("p", { class: "panel-words", "aria-live": "polite" });
    this.body = element("div", { class: "panel-body" });
    const head = element("summary", {}, element("h2", { text: title }), " ", element("small", { text: words }));
    this.box = element("details", { class: "panel", id: `panel-${id}`, "data-state": "idle" }, head, this.form, this.words, this.body);
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.run();
    });
    this.end.addEventListener("click", () => this.stop("cancelled"));
    this.box.addEventListener("toggle", () => this.box.open && this.show());
  }

  figure(name, title) {
    const svg = node("svg", { id: `${this.id}-${name}`, role: "img", "aria-label": title });
    const box = element("figure", {}, element("figcaption", {}, element("h2", { text: title }), element("ul", { class: "legend" })), svg);
    addFiles(box);
    if (this.id !== "atlas") readOut(svg, document.getElementById("tip"));
    return { svg, box, list: box.querySelector(".legend"), title: box.querySelector("h2") };
  }

  become(state, words = "") {
    const running = state === "running";
    this.box.dataset.state = state;
    this.button.disabled = running;
    this.end.hidden = this.progress.hidden = !running;
    this.state.textContent = words;
  }

  stop(state) {
    this.control?.abort();
    this.control = null;
    if (this.box.dataset.state !== "running") return;
    this.become(state, state === "cancelled" ? "Cancelled." : "");
    this.ended = ["cancelled", "Cancelled."];
  }

  finish(...how) {
    this.ended = how;
    this.become(...how);
  }

  // The problem has changed: what is shown is that of the one before.
  changed() {
    const now = JSON.stringify(this.owner.query());
    if (this.asked === null) return;
    if (this.asked === now) return this.box.dataset.state === "stale" && this.become(...this.ended); // here we are again
    this.stop("stale");
    if (this.found.length) this.become("stale", "Of the problem before: compute it again.");
  }

  async run() {
    this.stop("cancelled");
    const control = (this.control = new AbortController());
    const query = this.owner.query();
    const one = async (part, options) => {
      const found = await ask(`${this.owner.api}/${part}`, { query: { ...query, ...options }, signal: control.signal });
      if (found.failed && part !== "point") throw new Error(found.message);
      return found;
    };
    Object.assign(this, { found: [], asked: JSON.stringify(query), told: this.write() });
    this.words.textContent = ""; // what is there is of what was asked before
    this.body.replaceChildren();
    this.box.open = true;
    this.become("running", "…");
    this.owner.written();
    try {
      await this.compute(one, (done, total) => {
        if (control !== this.control) return;
        this.progress.value = done / total;
        this.state.textContent = `${done} of ${total}`;
        this.show();
      });
      if (control === this.control) this.finish("done");
    } catch (error) {
      if (error.name === "AbortError" || control !== this.control) return;
      this.finish("failed", asSentence(error.message));
    }
    this.show();
  }
}

const choice = (id, options, words) => {
  const select = element("select", { id });
  for (const [value, text] of Object.entries(options)) select.append(element("option", { value, text }));
  return [element("label", {}, `${words} `, select), select];
};
const box = (id, words, checked) => {
  const input = element("input", { type: "checkbox", id, checked });
  return [element("label", {}, input, ` ${words}`), input];
};

// ------------------------------------------------------------------ the optimum

const VARIABLES = { step: "step η", ridge: "penalty λ", split: "split of the samples" };

class Best extends Panel {
  options() {
    this.boxes = Object.fromEntries(Object.entries(VARIABLES).map(([name, words]) => [name, box(`best-${name}`, words, name !== "split")]));
    return Object.values(this.boxes).map(([label]) => label);
  }

  get over() {
    return Object.keys(VARIABLES).filter((name) => this.boxes[name][1].checked);
  }

  write() {
    return this.over.join(",");
  }

  read(text) {
    for (const name of Object.keys(VARIABLES)) this.boxes[name][1].checked = text.split(",").includes(name);
  }

  async compute(one, tell) {
    const { over } = this;
    if (!over.length) throw new Error("choose at least one of step, penalty and split");
    const parts = over.length > 1 ? [...over, over.join(",")] : over;
    for (const [i, part] of parts.entries()) {
      this.found.push(await one("best", { over: part }));
      tell(i + 1, parts.length);
    }
  }

  show() {
    if (!this.found.length) return;
    const given = this.found[0].before;
    const row = (name, f) => [name, f.test_error, given == null ? null : 1 - f.test_error / given, f.step, f.ridge, f.n_step, f.n];
    const rows = this.found.map((f) => row(f.over.map((name) => VARIABLES[name]).join(", ") + (this.found.length > 1 && f.over.length === 1 ? " alone" : ""), f));
    const head = ["tuned", "test error", "gain", "η", "λ", "samples of the step", "of the fit"];
    const cells = (values) => values.map((v, i) => element("td", { text: i === 0 ? v : i === 2 ? percent(v) : show(v, i === 1 ? 4 : 3) }));
    const table = element("table", {}, element("tr", {}, ...head.map((text) => element("th", { text }))));
    if (given != null) table.append(element("tr", {}, ...cells(["nothing, as given", given, 0, ...Array(4).fill(null)])));
    table.append(...rows.map((values) => element("tr", {}, ...cells(values))));
    const last = this.found.at(-1);
    const use = element("button", { type: "button", text: "Go there", title: "Show the problem with these" });
    use.addEventListener("click", () => this.owner.go(last, JSON.parse(this.asked)));
    this.words.textContent = asSentence(last.message);
    this.body.replaceChildren(element("div", { class: "table" }, table), use);
  }
}

// ------------------------------------------------------------------ a learning curve

// d log y/d log x: central differences, at the ends one-sided.
export function exponents(x, y) {
  const [u, v] = [x.map(Math.log), y.map((value) => (value > 0 ? Math.log(value) : NaN))];
  return x.map((_, i) => {
    const [a, b] = [Math.max(i - 1, 0), Math.min(i + 1, x.length - 1)];
    const slope = (v[b] - v[a]) / (u[b] - u[a]);
    return Number.isFinite(slope) ? slope : null;
  });
}

// Ticks of a logarithmic axis that may span less than a decade.
const closeTicks = (low, high) => (high > 20 * low ? logTicks(low, high) : niceTicks(low, high, 5).ticks.filter((t) => t >= low && t <= high));

// Sizes where n meets N, d or d²/2, and N does.
export function landmarks(x, found) {
  const ratios = { "n = N": (f) => f.n / f.N, "n = d": (f) => f.n / f.d, "n = d²/2": (f) => (2 * f.n) / f.d ** 2, "N = d²/2": (f) => (2 * f.N) / f.d ** 2 };
  return Object.entries(ratios).flatMap(([label, ratio]) => {
    const level = found.map((f) => Math.log(ratio(f)));
    const i = level.findIndex((value, k) => k + 1 < level.length && value * level[k + 1] <= 0 && value !== level[k + 1]);
    if (i < 0) return [];
    const share = level[i] / (level[i] - level[i + 1]);
    return [{ at: Math.exp(Math.log(x[i]) + share * Math.log(x[i + 1] / x[i])), label }];
  });
}

class Curve extends Panel {
  options() {
    const along = Object.fromEntries(this.owner.along.map((name) => [name, AXES[name]]));
    const number = (name, words, value) => [element("label", {}, `${words} `, (this[name] = element("input", { type: "text", inputmode: "numeric", id: `curve-${name}`, value, size: 6 })))];
    const [alongLabel, alongBox] = choice("curve-along", along, "along");
    const [holdLabel, holdBox] = choice("curve-hold", this.owner.hold, "with");
    const [tunedLabel, tunedBox] = box("curve-tuned", "best λ at every point", true);
    const [seedsLabel, seedsBox] = box("curve-seeds", this.owner.measured, false);
    Object.assign(this, { along: alongBox, hold: holdBox, tuned: tunedBox, seeds: seedsBox });
    return [alongLabel, ...number("first", "from", "100"), ...number("last", "to", this.owner.last), ...number("points", "points", "13"), holdLabel, tunedLabel, seedsLabel];
  }

  write() {
    const typed = [this.first, this.last, this.points].map((input) => input.value.replaceAll(",", ";")); // 1,000 is no number
    return [this.along.value, ...typed, this.hold.value, this.tuned.checked ? "tuned" : "given", ...(this.seeds.checked ? ["measured"] : [])].join(",");
  }

  read(text) {
    const [along, first, last, points, hold, tuned, seeds] = text.split(",");
    if (along in AXES) this.along.value = along;
    Object.entries({ first, last, points }).forEach(([name, value]) => value && (this[name].value = value));
    if (hold in this.owner.hold) this.hold.value = hold;
    this.tuned.checked = tuned !== "given";
    this.seeds.checked = seeds === "measured";
  }

  async compute(one, tell) {
    const [along, ...given] = this.told.split(","); // as it was when this was asked for
    const [first, last, points] = given.splice(0, 3).map(Number);
    const [hold, tuned, seeds] = given;
    if (!(first >= 1 && last > first && last <= 1e15 && Number.isInteger(points) && points >= 2 && points <= 60)) throw new Error("a curve needs sizes 1 ≤ from < to ≤ 10^15 and 2 to 60 points");
    for (let i = 0; i < points; i++) {
      const size = Math.round(first * (last / first) ** (i / (points - 1)));
      const found = await one("point", { along, size, hold, tuned: tuned === "tuned" ? "1" : "0", seeds: seeds ? "4" : "0" });
      if (found.failed) throw new Error(found.message);
      this.found.push(found);
      tell(i + 1, points);
    }
  }

  show() {
    if (this.found.length < 2) return;
    this.figures ??= [this.figure("error", "Test error"), this.figure("exponent", "Local exponent")];
    if (!this.body.contains(this.figures[0].box)) this.body.replaceChildren(...this.figures.map((f) => f.box));
    const x = this.found.map((f) => f.at);
    const [along] = this.told.split(",");
    const label = AXES[along];
    const off = this.found.map((f) => f.status !== "solved");
    const axis = { low: x[0], high: x.at(-1), log: true, ticks: logTicks(x[0], x.at(-1)), format: logName, label };
    const marks = landmarks(x, this.found);
    const stepped = this.found.some((f) => f.untrained !== f.test_error);
    const [error, slope] = this.figures;
    const columns = [["after the step", "test_error", 0], ...(stepped ? [["without a step", "untrained", 4]] : [])];
    const logs = columns.map(([name, key, colour]) => ({ kind: "line", x, y: this.found.map((f) => (f[key] > 0 ? Math.log10(f[key]) : null)), label: name, colour, off: colour ? undefined : off, straight: true }));
    const seen = this.found.filter((f) => f.measured?.mean > 0);
    if (seen.length) logs.push({ kind: "points", label: "measured", x: seen.map((f) => f.at), y: seen.map((f) => Math.log10(f.measured.mean)), error: seen.map((f) => f.measured.stderr / f.measured.mean / Math.LN10), colour: 0, titles: seen.map((f) => `${show(f.measured.mean, 4)} ± ${show(f.measured.stderr, 2)}`) });
    const range = finite(logs.flatMap((s) => s.y));
    const [low, high] = [10 ** (Math.min(...range) - 0.05), 10 ** (Math.max(...range) + 0.05)];
    draw(error.svg, { x: axis, y: { low: Math.log10(low), high: Math.log10(high), ticks: closeTicks(low, high).map(Math.log10), format: (t) => show(10 ** t, 2) }, verticals: marks, series: logs });
    error.svg.told = columns.map(([name, key]) => ({ kind: "line", label: name, x, y: this.found.map((f) => f[key]) }));
    if (seen.length) error.svg.told.push({ kind: "points", label: "measured", x: seen.map((f) => f.at), y: seen.map((f) => f.measured.mean), error: seen.map((f) => f.measured.stderr) });
    legend(error.list, [...columns.map(([name, , colour]) => ({ label: name, colour })), ...(off.some(Boolean) ? [{ label: "known to be off, or no theory", style: "off" }] : []), ...(seen.length ? [{ label: "measured, 4 seeds", kind: "points" }] : [])]);
    const y = exponents(x, this.found.map((f) => f.excess));
    draw(slope.svg, { x: axis, y: niceTicks(Math.min(...finite(y), 0), Math.max(...finite(y), 0), 5), verticals: marks.map((m) => ({ ...m, label: "" })), series: [{ kind: "line", x, y, label: "exponent", colour: 2, off, straight: true }] });
    legend(slope.list, [{ label: `d log(${this.owner.excess})/d log ${along}`, colour: 2 }]);
    this.tell(x, y, off, along);
  }

  tell(x, y, off, name) {
    const solved = x.map((_, i) => i).filter((i) => !off[i]);
    const [a, b] = [solved[0], solved.at(-1)];
    const [first, last] = [this.found[a], this.found[b]];
    if (!last) this.words.textContent = `No point has a number that may be trusted: ${this.found[0].message}.`;
    else this.words.textContent = `The predicted test error goes from ${show(first.test_error, 4)} at ${name} = ${show(x[a])} to ${show(last.test_error, 4)} at ${name} = ${show(x[b])}${y[b] == null ? "" : `, there like ${name}^${minus(y[b].toFixed(2))}${this.owner.above}`}${off.some(Boolean) ? `; ${off.filter(Boolean).length} of ${x.length} points are not solved or known to be off` : ""}.`;
    for (const [i, f] of this.figures.entries()) f.svg.setAttribute("aria-label", i ? `Local exponent along ${name}` : this.words.textContent);
  }
}

// ------------------------------------------------------------------ the atlas

const SHOWN = { test_error: "Best test error", step: "Best step η", gain: "Gain by the step", ridge: "Best penalty λ" };

class Atlas extends Panel {
  options() {
    const [planeLabel, plane] = choice("atlas-plane", this.owner.planes, "over");
    const [whatLabel, what] = choice("atlas-what", SHOWN, "show");
    Object.assign(this, { plane, what });
    what.addEventListener("change", () => {
      this.show();
      if (this.told) this.told = `${this.told.split(",")[0]},${what.value}`;
      this.owner.written();
    });
    return [planeLabel, whatLabel];
  }

  write() {
    return `${this.plane.value},${this.what.value}`;
  }

  read(text) {
    const [plane, what] = text.split(",");
    if (plane in this.owner.planes) this.plane.value = plane;
    if (what in SHOWN) this.what.value = what;
  }

  async compute(one, tell) {
    this.axes = await one("points", { plane: this.plane.value });
    const { x, y, plane } = this.axes;
    for (const b of y)
      for (const a of x) {
        const found = await one("cell", { plane, x: a, y: b, near: this.found.at(-1)?.step ?? 0 });
        this.found.push({ ...found, x: a, y: b, gain: found.untrained && found.test_error != null ? 1 - found.test_error / found.untrained : null });
        tell(this.found.length, x.length * y.length);
      }
  }

  show() {
    if (!this.found.length) return;
    this.map ??= this.figure("map", "");
    if (!this.body.contains(this.map.box)) this.body.replaceChildren(this.map.box);
    const { x, y, plane } = this.axes;
    const [across, up] = plane.split("-");
    const what = this.what.value;
    const loga = what === "step" || what === "ridge";
    const values = finite(this.found.map((f) => (loga && !(f[what] > 0) ? null : f[what]))).map((v) => (loga ? Math.log(v) : v));
    const [least, most] = [Math.min(...values), Math.max(...values)];
    const linear = up === "noise";
    const fy = linear ? (v) => v : Math.log10;
    const ends = (all, f) => all.map((v, i) => [all[i - 1] ?? v, v, all[i + 1] ?? v].map(f)).map(([a, m, b]) => [m - (m === a ? (b - m) / 2 : (m - a) / 2), m + (m === b ? (m - a) / 2 : (b - m) / 2)]);
    const columns = ends(x, Math.log10);
    const rows = ends(y, fy);
    const [left, right, foot, top] = [columns[0][0], columns.at(-1)[1], rows[0][0], rows.at(-1)[1]];
    draw(this.map.svg, {
      x: { low: 10 ** left, high: 10 ** right, log: true, ticks: logTicks(10 ** left, 10 ** right), format: logName, label: AXES[across] },
      y: linear ? { low: foot, high: top, ticks: y, format: (t) => show(t, 2) } : { low: foot, high: top, ticks: logTicks(10 ** foot, 10 ** top).map(Math.log10), format: (t) => logName(10 ** t) },
      series: [],
    });
    const { toX, toY } = this.map.svg.scale;
    const plot = this.map.svg.lastElementChild;
    this.found.forEach((f, k) => {
      const [i, j] = [k % x.length, Math.floor(k / x.length)];
      const value = loga && f[what] > 0 ? Math.log(f[what]) : f[what];
      if (f[what] == null) return;
      const share = loga && !(f[what] > 0) ? 0 : most > least ? (value - least) / (most - least) : 0.5;
      const [x0, x1, y0, y1] = [toX(10 ** columns[i][0]), toX(10 ** columns[i][1]), toY(rows[j][1]), toY(rows[j][0])].map(Math.round);
      const made = node("rect", { class: "cell fill-0", x: x0, y: y0, width: x1 - x0, height: y1 - y0, "fill-opacity": (0.06 + 0.84 * (what === "test_error" ? 1 - share : share)).toFixed(3) });
      made.append(node("title", {}, `${AXES[across]} ${show(f.x)}, ${AXES[up]} ${show(f.y)}: best test error ${show(f.test_error, 4)} at η = ${show(f.step)}, λ = ${show(f.ridge, 2)}; without a step ${show(f.untrained, 4)}`));
      plot.append(made, node("text", { class: "cell-label", x: (x0 + x1) / 2, y: (y0 + y1) / 2 + 4, "text-anchor": "middle" }, what === "gain" ? percent(f.gain) : show(f[what], 2)));
    });
    this.map.title.textContent = `${SHOWN[what]}, over ${AXES[across]} and ${AXES[up]}`;
    this.map.svg.told = [{ label: SHOWN[what], x: this.found.map((f) => `${f.x} ${f.y}`), y: this.found.map((f) => f[what]) }];
    legend(this.map.list, [{ label: what === "test_error" ? "dark is low" : "dark is high", kind: "area" }]);
    const gains = finite(this.found.map((f) => f.gain));
    const blank = this.found.filter((f) => f.test_error == null).length;
    const without = blank ? ` Blank: ${blank} of ${this.found.length} points, without a number that may be trusted.` : "";
    this.words.textContent = gains.length ? `The best step lowers the best test error by up to ${percent(Math.max(...gains))}${this.owner.coarse}.${without}` : "No point has a number that may be trusted.";
    this.map.svg.setAttribute("aria-label", `${this.map.title.textContent}. ${this.words.textContent}`);
  }
}

// ------------------------------------------------------------------ all of them

export class Panels {
  constructor(root, { query, go, written, api = "/api/panel", along = ["n", "d", "N"], hold = { sizes: "the other sizes as they are", ratios: "the ratios as they are" }, planes = { "phi-psi": "φ and ψ", "n-N": "n and N", "n-noise": "n and noise" }, last = "1e6", excess = "error − σ_ε²", above = " above the noise", measured = "simulate up to 1,500", coarse = "; on the nodes of a map, errors to about 2 %" }) {
    Object.assign(this, { query, go, written, api, along, hold, planes, last, excess, above, measured, coarse });
    this.each = {
      best: new Best(this, "best", "Best step, penalty, split", "together and each alone"),
      curve: new Curve(this, "curve", "Learning curve", "the error against n, d or N, and its local exponent"),
      atlas: new Atlas(this, "atlas", "Atlas", "the best step and test error over a plane of problems"),
    };
    root.append(...Object.values(this.each).map((panel) => panel.box));
    root.hidden = "offline" in document.documentElement.dataset; // there is nobody to ask
    new ResizeObserver(() => Object.values(this.each).forEach((panel) => panel.box.open && panel.found.length && panel.show())).observe(root);
  }

  changed() {
    Object.values(this.each).forEach((panel) => panel.changed());
  }

  // For the address: what was asked for.
  hash() {
    return Object.fromEntries(Object.entries(this.each).filter(([, panel]) => panel.asked !== null).map(([name, panel]) => [name, panel.told]));
  }

  // What the address asks for, one after another.
  async read(hash) {
    const given = new URLSearchParams(hash.slice(1));
    for (const [name, panel] of Object.entries(this.each)) {
      if (!given.has(name)) continue;
      panel.read(given.get(name));
      await panel.run();
    }
  }
}
