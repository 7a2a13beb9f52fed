// The page of a table of one's own: sizes and step, what is predicted, and the panels.

import { draw, legend, logTicks, niceTicks } from "./chart.js";
import { ask } from "./net.js";
import { Panels } from "./panels.js";
import { addFiles, readOut } from "./readout.js";
import { asSentence, element, finite, logName, percent, plainNumber, rewrite, show } from "./text.js";

const byId = (id) => document.getElementById(id);
const REST = 300; // ms without input after which the answer is asked for
const NUMBERS = {
  n: "n, rows of the fit",
  N: "N, neurons",
  ridge: "λ, penalty",
  constant: "c in η = c·n^α (0: no step)",
  exponent: "α in η = c·n^α",
  step_samples: "rows of the step over n",
};
const CHOICES = { activation: "activation σ", gradient: "gradient", readout: "readout a", weights: "rows of W₀" };
const BASELINES = { "linear-ridge": "ridge on the columns", "best-linear": "best linear function" };

let about;
let values;
let panels;
let waiting;
let asking = new AbortController();

const query = () => Object.fromEntries(Object.entries(values).filter(([k, v]) => v !== about.defaults[k]));

function banner(words) {
  byId("banner").textContent = asSentence(words);
  byId("banner").hidden = !words;
}

// ------------------------------------------------------------------ controls

function build() {
  const row = (name, words, field) => {
    field.addEventListener("change", () => set(name, field.type === "text" ? plainNumber(field.value) : field.value));
    return element("div", { class: "row" }, element("label", { for: field.id, text: words }), field);
  };
  const numbers = Object.entries(NUMBERS).map(([name, words]) => row(name, words, element("input", { type: "text", inputmode: "decimal", class: "number", id: `control-${name}` })));
  const menus = Object.entries(CHOICES).map(([name, words]) => {
    const select = element("select", { id: `control-${name}` });
    for (const value of name === "activation" ? about.functions : about.choices[name]) select.append(element("option", { value, text: value }));
    return row(name, words, select);
  });
  byId("controls").append(element("fieldset", {}, element("legend", { text: "Sizes and step" }), ...numbers), element("fieldset", {}, element("legend", { text: "The network" }), ...menus));
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  byId("table-name").textContent = about.name;
  byId("facts").replaceChildren(...about.facts.map((text) => element("li", { text })));
}

function showValues() {
  for (const name of [...Object.keys(NUMBERS), ...Object.keys(CHOICES)]) byId(`control-${name}`).value = values[name];
}

function set(name, value) {
  if (values[name] === value) return;
  values = Object.fromEntries(Object.keys(about.defaults).map((known) => [known, values[known]])); // nothing unknown from the address
  values[name] = value;
  changed();
}

function write(way = "replaceState") {
  const text = new URLSearchParams(query()).toString();
  const told = new URLSearchParams(panels.hash()).toString();
  rewrite(text ? `?${text}` : "", told ? `#${told}` : "", way);
}

function changed() {
  showValues();
  panels.changed();
  byId("sentence").dataset.state = "running";
  byId("answers").setAttribute("aria-busy", "true");
  asking.abort();
  clearTimeout(waiting);
  waiting = setTimeout(answer, REST);
}

// ------------------------------------------------------------------ answers

async function answer() {
  asking = new AbortController();
  const { signal } = asking;
  try {
    const { copies } = await ask("/api/table/problem", { query: query(), signal });
    byId("command").textContent = copies.command;
    write();
    banner("");
    const found = await ask("/api/table/here", { query: query(), signal });
    if (found.failed) throw new Error(found.message);
    show_(found);
    byId("sentence").dataset.state = "done";
  } catch (error) {
    if (error.name === "AbortError") return;
    banner(error.message);
    byId("sentence").dataset.state = "failed";
  }
  byId("answers").setAttribute("aria-busy", "false");
}

const inUnits = (error) => show(Math.sqrt(error) * about.scale, 3);

function show_(found) {
  const { here, before, baselines } = found;
  if (here.test_error == null) byId("sentence").textContent = asSentence(found.message);
  else {
    const step = found.eta ? ` after a step of η = ${show(found.eta)}, ${show(before, 3)} without it` : "";
    const linear = baselines["linear-ridge"] == null ? "" : ` Ridge regression on the columns leaves ${show(baselines["linear-ridge"], 3)}.`;
    const off = here.status === "solved" ? ` ${asSentence(found.accuracy)}` : ` ${asSentence(found.message)}`;
    byId("sentence").textContent = `On n = ${show(Number(values.n), 6)} rows ${show(Number(values.N), 6)} neurons are predicted to leave ${show(here.test_error, 3)} of the variance of the target (± ${inUnits(here.test_error)} in its unit)${step}.${linear}${off}`;
  }
  drawPenalty(found);
  drawShares(found);
}

function drawPenalty({ ridge, test_error, untrained, status, here, baselines, eta }) {
  const off = status.map((s) => s !== "solved");
  const all = finite([...test_error, ...untrained]).filter((v) => v < 3 * Math.min(...finite(test_error)));
  const series = [{ kind: "line", x: ridge, y: test_error, label: eta ? "after the step" : "test error", colour: 0, off }];
  if (eta) series.push({ kind: "line", x: ridge, y: untrained, label: "without a step", colour: 4 });
  draw(byId("penalty"), {
    x: { low: ridge[0], high: ridge.at(-1), log: true, ticks: logTicks(ridge[0], ridge.at(-1)), format: logName, label: "λ, penalty" },
    y: niceTicks(Math.min(...all), Math.max(...all), 5),
    horizontals: Object.entries(BASELINES).map(([name, label], i) => ({ at: baselines[name], label, style: i + 1 })),
    series,
    handles: [{ at: Number(values.ridge), value: here.test_error, label: show(here.test_error) }],
  });
  legend(byId("legend-penalty"), [...series.map((s) => ({ label: s.label, colour: s.colour })), ...(off.some(Boolean) ? [{ label: "beyond what the rows show", style: "off" }] : [])]);
}

function drawShares({ fraction, untrained_fraction: before = {} }) {
  const degrees = Object.keys(fraction);
  const x = degrees.map(Number);
  const y = degrees.map((k) => fraction[k]);
  const bare = degrees.map((k) => before[k]);
  const [least, most] = [Math.min(0, ...finite([...y, ...bare])), Math.max(1, ...finite([...y, ...bare]))];
  const axis = most < 1.1 && least > -0.1 ? { low: Math.min(least - 0.03, -0.03), high: most + 0.03, ticks: [0, 0.25, 0.5, 0.75, 1] } : niceTicks(least, most, 4);
  draw(byId("shares"), {
    x: { low: 0.5, high: 4.5, ticks: [1, 2, 3, 4], format: String, label: "degree" },
    y: { ...axis, format: percent },
    series: [
      { kind: "points", label: "without a step", x: x.map((k) => k - 0.08), y: bare, colour: 1, titles: bare.map((v, i) => `degree ${x[i]}, without a step: ${percent(v)}`) },
      { kind: "points", label: "after the step", x: x.map((k) => k + 0.08), y, colour: 0, titles: y.map((v, i) => `degree ${x[i]}: ${percent(v)}`) },
    ],
  });
  legend(byId("legend-shares"), [{ label: "after the step", kind: "points", colour: 0 }, { label: "without", kind: "points", colour: 1 }]);
  byId("shares").setAttribute("aria-label", `Learned: ${degrees.map((k) => `${percent(fraction[k])} of degree ${k}`).join(", ") || "the rows show no function along one direction"}`);
}

// ------------------------------------------------------------------ the beginning

// The optimum as an address: its step, penalty and split.
function go(best, asked) {
  const number = (x) => String(Number(x.toPrecision(6)));
  const told = { ridge: number(best.ridge), constant: number(best.constant), exponent: number(best.exponent), n: String(best.n), step_samples: number(best.n_step / best.n) };
  write("pushState");
  values = { ...about.defaults, ...asked, ...told };
  changed();
}

function openAddress() {
  values = { ...about.defaults, ...Object.fromEntries(new URLSearchParams(location.search)) };
  changed();
}

async function start() {
  about = await ask("/api/table");
  values = { ...about.defaults };
  build();
  for (const figure of document.querySelectorAll(".two figure")) {
    addFiles(figure);
    readOut(figure.querySelector("svg[role=img]"), byId("tip"));
  }
  panels = new Panels(byId("panels"), { query, go, written: () => write(), api: "/api/table/panel", along: ["n", "N"], hold: { sizes: "the other sizes as they are" }, planes: { "n-N": "n and N" }, last: String(5 * about.rows), excess: "error", above: "", measured: "measure on the rows", coarse: "" });
  addEventListener("popstate", openAddress);
  const asked = location.hash;
  openAddress();
  await panels.read(asked);
}

start().catch((error) => banner(error.message));
