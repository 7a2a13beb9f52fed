// The controls: each is a slider with a number beside it, or a menu. Values are the strings of the address.

import { element, plainNumber } from "./text.js";

const LOG = true;
export const SLIDERS = {
  exponent: { symbol: "α", words: "exponent", long: "exponent of the step", low: 0, high: 0.5, step: 0.005, decimals: 3 },
  constant: { symbol: "c", words: "constant", long: "constant of the step", low: 0.1, high: 10, log: LOG },
  ridge: { symbol: "λ", words: "penalty", long: "ridge penalty", low: 1e-4, high: 10, log: LOG },
  n: { symbol: "n", words: "samples", long: "samples", low: 100, high: 1e15, log: LOG, whole: true },
  phi: { symbol: "φ", words: "d/n", long: "inputs per sample, d/n", low: 0.05, high: 4, log: LOG },
  psi: { symbol: "ψ", words: "d/N", long: "inputs per neuron, d/N", low: 0.05, high: 4, log: LOG },
  noise: { symbol: "σ", sub: "ε", words: "noise", long: "label noise", low: 0, high: 2, step: 0.02, decimals: 2 },
  kappa: { symbol: "κ", words: "spike", long: "size of the spike, Σ ∝ I + κvvᵀ", low: 0.1, high: 100, log: LOG, when: (v) => v.inputs === "spiked" },
  overlap: { symbol: "v·β⋆", words: "overlap", long: "overlap of the spike and the teacher", low: 0, high: 1, step: 0.02, decimals: 2, when: (v) => v.inputs === "spiked" },
  steps: { symbol: "T", words: "steps", long: "steps of the first layer", low: 1, high: 8, step: 1, decimals: 0 },
};
const MENUS = {
  gradient: { words: "gradient", options: { full: "full, y − f₀(x)", labels: "labels only, y" } },
  weights: { words: "rows of W₀", options: { sphere: "unit sphere", gaussian: "Gaussian" } },
  readout: { words: "readout a", options: { gaussian: "Gaussian", constant: "constant", rademacher: "±1/√N" } },
  step_samples: { words: "samples of the step", options: { 1: "n", 2: "2n", 4: "4n", 8: "8n" } },
  fresh: { words: "samples of the fit", options: { true: "fresh", false: "those of the step" } },
  batch: { words: "further steps on", options: { fresh: "fresh samples", reused: "the same samples" }, when: (v) => v.steps !== "1" },
  directions: { words: "directions", options: { 1: "one, σ⋆(z)", 2: "two", 3: "three" } },
  mix: { words: "label", options: { sum: "Σ σ⋆(zⱼ)/√k", staircase: "σ⋆(z₁) + σ⋆(z₁)σ⋆(z₂) + …" }, when: (v) => v.directions !== "1" },
  inputs: {
    words: "law of x",
    options: { gaussian: "Gaussian, I", uniform: "uniform entries", rademacher: "±1 entries", student: "Student entries", ar1: "AR(1), 0.8^|i−j|", power: "power law, k^−½", spiked: "spiked, I + κvvᵀ", elliptic: "elliptic, random lengths" },
  },
};
const COEFFICIENTS = "coefficients";
export const TEACHER_DEGREES = 4;

const significant = (x, digits = 3) => Number(x.toPrecision(digits));

const closest = (stops, x) => stops.reduce((best, v, i) => (Math.abs(v - x) < Math.abs(stops[best] - x) ? i : best), 0);

function rangeOf(s) {
  if (s.stops) return { min: 0, max: s.stops.length - 1, step: 1 };
  return s.log ? { min: Math.log10(s.low), max: Math.log10(s.high), step: 0.01 } : { min: s.low, max: s.high, step: s.step };
}

export class Controls {
  constructor(form, { defaults, functions, stops }, changed) {
    this.form = form;
    this.stops = stops; // of an exported page: the values that were computed
    this.values = { ...defaults };
    this.changed = changed;
    this.inputs = {};
    form.append(
      this.group("The step", this.slider("exponent"), this.slider("constant"), this.slider("steps"), this.menu("batch"), this.menu("gradient")),
      this.group("The fit", this.slider("ridge")),
      this.group("Sizes", this.slider("n"), this.slider("phi"), this.slider("psi"), this.sizes()),
      this.group("The teacher", ...this.functionChoice("teacher", functions), this.menu("directions"), this.menu("mix"), this.slider("noise")),
      this.group("The inputs", this.menu("inputs"), this.slider("kappa"), this.slider("overlap")),
      this.group("The network", ...this.functionChoice("activation", functions)),
      this.more(this.menu("readout"), this.menu("weights"), this.menu("step_samples"), this.menu("fresh")),
    );
    form.addEventListener("submit", (event) => event.preventDefault());
    if (stops) for (const field of form.querySelectorAll("input, select")) field.disabled = !field.dataset.moves;
    this.show();
  }

  group(title, ...rows) {
    return element("fieldset", {}, element("legend", { text: title }), ...rows);
  }

  more(...rows) {
    return element("details", { class: "more" }, element("summary", { text: "More" }), ...rows);
  }

  sizes() {
    this.sizesText = element("p", { class: "sizes", id: "sizes" });
    return this.sizesText;
  }

  // ------------------------------------------------------------------ sliders

  slider(name) {
    const s = this.stops?.[name] ? { ...SLIDERS[name], stops: this.stops[name] } : SLIDERS[name];
    const id = `control-${name}`;
    const symbol = element("i", { text: s.symbol });
    if (s.sub) symbol.append(element("sub", { text: s.sub }));
    const label = element("label", { for: id, title: s.long }, symbol, ` ${s.words}`);
    const number = element("input", { type: "text", inputmode: "decimal", id: `${id}-number`, "aria-label": `${s.long}, number`, class: "number" });
    const range = element("input", { type: "range", id, "data-moves": s.stops && "yes", ...rangeOf(s) });
    range.addEventListener("input", () => this.set(name, this.fromRange(s, Number(range.value))));
    number.addEventListener("change", () => this.set(name, plainNumber(number.value)));
    const row = element("div", { class: "row" }, label, number, range);
    this.inputs[name] = { range, number, s, row, when: s.when };
    return row;
  }

  fromRange(s, position) {
    if (s.stops) return String(s.stops[Math.round(position)]);
    if (!s.log) return String(Number(position.toFixed(s.decimals)));
    const value = 10 ** position;
    return String(s.whole ? wholeNumber(value) : significant(value));
  }

  // A value picked in a figure, as coarsely as the slider would give it.
  rounded(name, value) {
    const { s } = this.inputs[name];
    if (s.stops) return this.fromRange(s, closest(s.stops, value));
    if (s.log) return this.fromRange(s, Math.log10(value));
    return this.fromRange(s, Math.round(value / s.step) * s.step);
  }

  // ------------------------------------------------------------------ menus

  menu(name) {
    const { words, options, when } = MENUS[name];
    const id = `control-${name}`;
    const select = element("select", { id });
    for (const [value, text] of Object.entries(options)) select.append(element("option", { value, text }));
    select.addEventListener("change", () => this.set(name, select.value));
    const row = element("div", { class: "row menu-row" }, element("label", { for: id, text: words }), select);
    this.inputs[name] = { select, row, when };
    return row;
  }

  // A named function or Hermite coefficients: for the teacher four sliders, for the activation a line of numbers.
  functionChoice(name, functions) {
    const id = `control-${name}`;
    const select = element("select", { id });
    select.append(element("option", { value: COEFFICIENTS, text: name === "teacher" ? "Σ c⋆ₖ Hₖ" : "Σ cₖ Hₖ" }));
    for (const f of functions) select.append(element("option", { value: f, text: f }));
    const words = name === "teacher" ? "σ⋆" : "activation σ";
    const row = element("div", { class: "row menu-row" }, element("label", { for: id, text: words }), select);
    const entry = { select, function: true };
    this.inputs[name] = entry;
    const list = () => this.values[name].split(",").map(Number);
    if (name === "activation") {
      entry.text = element("input", { type: "text", class: "coefficients", "aria-label": "Hermite coefficients of the activation, separated by commas" });
      entry.text.addEventListener("change", () => this.set(name, plain(name, entry.text.value)));
      select.addEventListener("change", () => this.set(name, select.value === COEFFICIENTS ? "0,1,0.3" : select.value));
      return [row, entry.text];
    }
    select.addEventListener("change", () => this.set(name, select.value === COEFFICIENTS ? "0,1,0.7071" : select.value));
    entry.degrees = [];
    entry.box = element("div", { class: "degrees" });
    for (let k = 1; k <= TEACHER_DEGREES; k++) {
      const own = `${id}-${k}`;
      const label = element("label", { for: own }, element("i", {}, "c", element("sub", { text: `⋆${k}` })));
      const range = element("input", { type: "range", id: own, min: -1.5, max: 1.5, step: 0.05, "aria-label": `Teacher's Hermite coefficient of degree ${k}` });
      const output = element("output", { for: own });
      range.addEventListener("input", () => {
        const now = this.values[name].includes(",") ? list() : [0, 1];
        while (now.length <= k) now.push(0);
        now[k] = Number(Number(range.value).toFixed(2));
        while (now.length > 2 && now.at(-1) === 0) now.pop();
        this.set(name, now.join(","));
      });
      entry.degrees.push({ range, output });
      entry.box.append(label, range, output);
    }
    return [row, entry.box];
  }

  // ------------------------------------------------------------------ values

  set(name, value) {
    if (this.values[name] === value) return;
    this.values = { ...this.values, [name]: value };
    this.show();
    this.changed(name);
  }

  replace(values) {
    this.values = { ...this.values };
    for (const [name, value] of Object.entries(values)) this.values[name] = plain(name, value);
    this.show();
  }

  // The field a sentence of the server begins with, "n must be …", is marked until the sentence is gone.
  mark(words) {
    const wrong = words.split(" ")[0];
    for (const [name, entry] of Object.entries(this.inputs)) (entry.number ?? entry.text)?.setAttribute("aria-invalid", String(name === wrong));
  }

  show() {
    for (const [name, entry] of Object.entries(this.inputs)) {
      const value = this.values[name];
      if (entry.when) entry.row.hidden = !entry.when(this.values);
      if (entry.range) {
        const x = Number(value);
        const position = entry.s.stops ? closest(entry.s.stops, x) : entry.s.log ? Math.log10(Math.max(x, 1e-300)) : x; // 0 is the left end
        if (Number.isFinite(position) && Math.abs(Number(entry.range.value) - position) > 1e-9) entry.range.value = position;
        if (entry.number.title === value && entry.number.value === short(value)) continue; // nothing to lay out
        entry.range.setAttribute("aria-valuetext", value);
        entry.number.value = short(value);
        entry.number.title = value;
      } else if (entry.function) {
        const polynomial = value.includes(",");
        entry.select.value = polynomial ? COEFFICIENTS : value;
        if (entry.text) {
          entry.text.hidden = !polynomial;
          if (polynomial) entry.text.value = value;
        } else {
          entry.box.hidden = !polynomial;
          const c = value.split(",").map(Number);
          entry.degrees.forEach(({ range, output }, i) => {
            range.value = c[i + 1] ?? 0;
            output.textContent = String(significant(c[i + 1] ?? 0)).replace("-", "−");
          });
        }
      } else {
        if (![...entry.select.options].some((o) => o.value === value)) entry.select.append(element("option", { value, text: `${value} n` }));
        entry.select.value = value;
      }
    }
  }

  showSizes(d, N) {
    this.sizesText.textContent = `d = ${d.toLocaleString("en-GB")} inputs, N = ${N.toLocaleString("en-GB")} neurons`;
  }
}

// As it is kept: fractions as decimal numbers, lists without spaces.
function plain(name, value) {
  if (name in SLIDERS) return plainNumber(value);
  return value.includes(",") ? value.split(",").map(plainNumber).join(",") : value;
}

const wholeNumber = (value) => Number(value.toPrecision(2));

// What fits into the field; the title has all digits.
function short(value) {
  const x = Number(value);
  if (!Number.isFinite(x) || value.length <= 7) return value;
  return Math.abs(x) >= 1e6 ? x.toExponential().replace("e+", "e") : String(significant(x, 4));
}
