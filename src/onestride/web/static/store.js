// The store: pick axes, see theory against simulation, open a problem in the explorer.

import { draw, legend, logTicks, niceTicks } from "./chart.js";
import { agreement, heatMap } from "./agreement.js";
import { ask } from "./net.js";
import { asSentence, element, minus, rewrite, show } from "./text.js";

const byId = (id) => document.getElementById(id);
const WORDS = { test_error: "test error", train_loss: "ridge objective", train_mse: "training error", test_gain: "gain in test error", train_gain: "gain in ridge objective" };
const NAMES = { exponent: "exponent α", constant: "constant c", ridge: "penalty λ", phi: "φ = d/n", psi: "ψ = d/N", noise: "noise", n_step: "samples of the step" };
const name = (field) => NAMES[field] ?? field;
const text = (value) => (typeof value === "number" ? show(value, 4) : String(value));
const LOOKS = { lines: "lines", map: "map of values", gaps: "map of gaps" };
const PREFERRED = ["exponent", "ridge", "n", "phi", "psi", "noise", "constant"];

export class StoreView {
  constructor(open, hash) {
    Object.assign(this, { open, hash });
    this.choice = {};
    new ResizeObserver(() => this.data && !byId("store").hidden && this.draw()).observe(byId("store"));
  }

  async toggle() {
    this.turn(!this.shown);
    rewrite(location.search, this.shown ? "#store" : this.hash());
    if (this.shown) await this.load();
  }

  // What the address says: the store, or the explorer.
  async follow() {
    this.turn(location.hash.startsWith("#store"));
    if (this.shown) await this.load(new URLSearchParams(location.hash.slice(1)));
  }

  get shown() {
    return !byId("store").hidden;
  }

  turn(shown) {
    byId("store").hidden = !shown;
    byId("explore").hidden = shown;
    byId("view-store").setAttribute("aria-pressed", String(shown));
  }

  // What is shown, after #store: a link to it.
  write() {
    if (!this.data) return rewrite(location.search, "#store");
    const { x, y, by, as, hold } = this.choice;
    const told = new URLSearchParams({ quantity: y, ...(x ? { x } : {}), by, as });
    for (const field of this.held) told.append(`at.${field}`, hold[field]);
    rewrite(location.search, `#store&${told}`);
  }

  // Choices of the address, where the store has them.
  read(asked) {
    const { x, y, by } = this.choice;
    const known = (value, options, otherwise) => (options.includes(value) ? value : otherwise);
    this.choice.x = known(asked.get("x"), this.numeric, x);
    this.choice.y = known(asked.get("quantity"), this.data.quantities, y);
    if (asked.has("by")) this.choice.by = known(asked.get("by"), Object.keys(this.data.axes), by);
    if (this.choice.by === this.choice.x || asked.get("by") === "") this.choice.by = "";
    this.choice.as = known(asked.get("as"), Object.keys(LOOKS), "lines");
    for (const [name, value] of asked) if (name.startsWith("at.")) this.choice.hold[name.slice(3)] = value;
  }

  async load(asked = new URLSearchParams()) {
    const { found, error } = await ask("/api/store").then((found) => ({ found }), (error) => ({ error }));
    this.data = found;
    if (error) return this.fail(error.message);
    byId("store-name").textContent = this.data.store;
    const numeric = Object.keys(this.data.axes).filter((f) => this.data.axes[f].every((v) => typeof v === "number"));
    numeric.sort((a, b) => rank(a) - rank(b));
    this.numeric = numeric;
    this.choice = { x: numeric[0] ?? null, y: "test_error", by: "", as: "lines", hold: {} };
    const others = Object.keys(this.data.axes).filter((f) => f !== this.choice.x && !this.follows(f));
    this.choice.by = others.find((f) => this.data.axes[f].length <= 5) ?? "";
    this.read(asked);
    this.build();
    this.draw();
  }

  // Nothing is left of what was seen at another time.
  fail(words) {
    for (const id of ["axes", "legend-store", "store-chart", "store-table"]) byId(id).replaceChildren();
    for (const id of ["store-title", "store-agreement"]) byId(id).textContent = "";
    delete byId("legend-store").dataset.entries;
    byId("store-words").textContent = asSentence(words);
  }

  // φ, ψ and sizes move together; an axis that is told by x alone is not asked for
  follows(field, given = [this.choice.x]) {
    const seen = new Map();
    return this.data.rows.every((row) => {
      const key = given.map((g) => row[g]).join("|");
      if (!seen.has(key)) seen.set(key, row[field]);
      return seen.get(key) === row[field];
    });
  }

  build() {
    const select = (label, options, value, change) => {
      const box = element("select", {});
      for (const [v, words] of options) box.append(element("option", { value: v, text: words }));
      box.value = value;
      box.addEventListener("change", () => change(box.value));
      return element("label", {}, label, box);
    };
    const axes = Object.keys(this.data.axes);
    const { x, by } = this.choice;
    const parts = [
      select("show", this.data.quantities.map((q) => [q, WORDS[q]]), this.choice.y, (v) => this.choose({ y: v })),
      select("against", this.numeric.map((f) => [f, name(f)]), x ?? "", (v) => this.choose({ x: v, by: by === v ? "" : by })),
      select("a line for each", [["", "–"], ...axes.filter((f) => f !== x).map((f) => [f, name(f)])], by, (v) => this.choose({ by: v })),
      select("as", Object.entries(LOOKS), this.choice.as, (v) => this.choose({ as: v })),
    ];
    this.held = [];
    for (const field of axes) {
      if (field === x || field === by || this.follows(field, [x, ...(by ? [by] : []), ...this.held])) continue;
      this.held.push(field);
      const values = this.data.axes[field];
      if (!values.some((v) => String(v) === this.choice.hold[field])) this.choice.hold[field] = String(values[0]);
      parts.push(select(`at ${name(field)} =`, values.map((v) => [String(v), text(v)]), this.choice.hold[field], (v) => this.choose({ hold: { ...this.choice.hold, [field]: v } })));
    }
    byId("axes").replaceChildren(...parts);
  }

  choose(changes) {
    Object.assign(this.choice, changes);
    this.build();
    this.write();
    this.draw();
  }

  rows() {
    return this.data.rows.filter((row) => this.held.every((f) => String(row[f]) === this.choice.hold[f]));
  }

  draw() {
    const { x, y, by } = this.choice;
    const rows = this.rows();
    const notice = byId("store-chart").parentElement.querySelector(".notice");
    const nothing = !this.data.total ? `There are no results in this store yet; a simulation or a sweep will put them here.` : x == null ? "Only one problem is stored: there is nothing to put on an axis." : "";
    notice.textContent = nothing;
    notice.hidden = !nothing;
    byId("store-title").textContent = x == null ? WORDS[y] : `${WORDS[y]} against ${name(x)}`;
    const fixed = Object.entries(this.data.fixed).filter(([k]) => !["inputs", "steps", "batch", "directions", "mix", "centred", "weights"].includes(k));
    const cut = this.data.rows.length < this.data.total ? ` Only the first ${this.data.rows.length} of ${this.data.total} problems are shown.` : "";
    byId("store-words").textContent = this.data.total ? `${this.data.total} problems; the same in all: ${fixed.map(([k, v]) => `${name(k)} = ${text(v)}`).join(", ")}.${cut}` : "";
    byId("store-agreement").textContent = this.data.total ? agreement(this.data.rows, y, (row) => Object.keys(this.data.axes).map((f) => `${name(f)} = ${text(row[f])}`).join(", ")) : "";
    this.table(rows);
    const svg = byId("store-chart");
    svg.repaint = () => this.draw();
    svg.reads = null;
    if (nothing) return svg.replaceChildren();
    if (this.choice.as !== "lines") return heatMap(svg, byId("legend-store"), { rows, x, by, quantity: y, gaps: this.choice.as === "gaps", values: this.data.axes, text, words: (f) => (f ? name(f) : "") });
    const groups = by ? this.data.axes[by].map((v) => [`${name(by)} = ${text(v)}`, rows.filter((r) => r[by] === v)]) : [["", rows]];
    const known = groups.filter(([, own]) => own.length);
    const drawn = known.slice(0, 5);
    if (known.length > drawn.length) byId("store-words").textContent += ` Only ${drawn.length} of ${known.length} lines are drawn.`;
    const series = [];
    const entries = [];
    drawn.forEach(([label, own], i) => {
      own.sort((a, b) => a[x] - b[x]);
      series.push({ kind: "line", x: own.map((r) => r[x]), y: own.map((r) => r[y].theory), off: own.map(isOff), colour: i, label: label || "theory", straight: true });
      series.push({ kind: "points", x: own.map((r) => r[x]), y: own.map((r) => r[y].mean), error: own.map((r) => r[y].stderr), colour: i, label: label ? `${label}, simulation` : "simulation", group: "simulation", titles: own.map((r) => `${name(x)} = ${text(r[x])}: ${show(r[y].mean, 4)} ± ${show(r[y].stderr, 2)}, ${r.seeds} seeds; theory ${show(r[y].theory, 4)}`) });
      entries.push({ label: label || "theory", colour: i });
    });
    if (rows.some(isOff)) entries.push({ label: "theory known to be off by more than 5 %", style: "off", fixed: true });
    entries.push({ label: "simulation", kind: "points" });
    const at = rows.map((r) => r[x]);
    const values = rows.flatMap(({ [y]: q }) => [q.mean, q.theory, q.mean == null ? null : q.mean - q.stderr, q.mean == null ? null : q.mean + q.stderr]).filter((v) => v != null);
    const [low, high] = [Math.min(...at), Math.max(...at)];
    const log = low > 0 && high / low > 20;
    const linear = niceTicks(low, high, 6);
    const room = (v) => (log ? [v[0] / 1.15, v[1] * 1.15] : [v[0] - 0.02 * (v[1] - v[0]), v[1] + 0.02 * (v[1] - v[0])]);
    const [from, to] = low === high ? [low - 0.5, high + 0.5] : room([low, high]);
    const inside = (ticks) => ticks.filter((t) => t >= from && t <= to);
    draw(byId("store-chart"), {
      x: { low: from, high: to, log, ticks: inside(log ? logTicks(from, to) : linear.ticks), format: (t) => show(t, 3), label: name(x) },
      y: values.length ? niceTicks(Math.min(...values), Math.max(...values), 6) : niceTicks(0, 1),
      series,
    });
    legend(byId("legend-store"), entries);
  }

  table(rows) {
    const { y } = this.choice;
    const fields = Object.keys(this.data.axes);
    const head = [...fields.map(name), "seeds", "measured", "± standard error", "theory", ""];
    const body = rows.slice(0, 300).map((row) => {
      const q = row[y];
      const cells = [...fields.map((f) => text(row[f])), row.seeds, show(q.mean, 5), show(q.stderr, 2), isOff(row) ? `${show(q.theory, 5)}, known to be off` : show(q.theory, 5)];
      const line = element("tr", {}, ...cells.map((c) => element("td", { text: minus(String(c)) })));
      const last = element("td");
      if (row.query) {
        const button = element("button", { type: "button", text: "open", "aria-label": "Open this problem in the explorer" });
        button.addEventListener("click", () => this.open(row.query));
        last.append(button);
      } else if (row.reason) last.textContent = row.reason;
      line.append(last);
      return line;
    });
    byId("store-table").replaceChildren(element("thead", {}, element("tr", {}, ...head.map((h) => element("th", { scope: "col", text: h })))), element("tbody", {}, ...body));
  }
}

const isOff = (row) => row.status === "inaccurate";
const rank = (field) => (PREFERRED.includes(field) ? PREFERRED.indexOf(field) : 99);
