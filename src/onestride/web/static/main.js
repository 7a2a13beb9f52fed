// The page: one problem, its address, theory that follows the sliders, and the simulation beside it.

import { Controls } from "./controls.js";
import { QUANTITIES, errorFigure, functionFigure, learnedFigure } from "./figures.js";
import { explain, sentence, writeFormulas } from "./formulas.js";
import { dragValue, pickOnMap } from "./drag.js";
import { Drawing } from "./draw.js";
import { Drawer } from "./drawer.js";
import { mapFigure } from "./map.js";
import { Refused, ask, latest } from "./net.js";
import { neuronsFigure, partsOf, vectorsFigure } from "./network.js";
import { Opening } from "./opening.js";
import { Play } from "./play.js";
import { Presets } from "./presets.js";
import { addFiles, readOut } from "./readout.js";
import { stale } from "./stale.js";
import { Share } from "./share.js";
import { Simulation } from "./simulate.js";
import { spectrumFigure } from "./spectrum.js";
import { StoreView } from "./store.js";
import { Story } from "./story.js";
import { asSentence, rewrite } from "./text.js";
import { View } from "./view.js";
import { Why } from "./why.js";
import { Panels } from "./panels.js";

const REST = 200; // ms without input after which the full theory is asked for
const LONG_REST = 500; // and after that, for the map
const byId = (id) => document.getElementById(id);

const answers = { curves: null, here: null, map: null };
let about;
let controls;
let simulation;
let share;
let panels;
let view;
let presets;
let storeView;
let drawing;
let why;
let rest;
let writing;
let refining = new AbortController();
let scheduled = 0;
let bad = ""; // what is said of a bad address, until something else is shown
let wrong = ""; // what the server says against the values shown
const failed = new Map(); // questions that have no answer, with the reason
let opening;

// ------------------------------------------------------------------ the address

function query() {
  return Object.fromEntries(Object.entries(controls.values).filter(([k, v]) => v !== about.defaults[k]));
}

function writeAddress() {
  const text = new URLSearchParams(query()).toString().replaceAll("%2C", ",");
  rewrite(text ? `?${text}` : "", location.hash);
}

// ------------------------------------------------------------------ theory

const wanted = new Set(); // of the quick answers; both are drawn in one frame
const quick = latest(async (values) => {
  const names = [...wanted];
  wanted.clear();
  await Promise.all(names.map((name) => receive(name, values, "quick")));
  cancelAnimationFrame(scheduled); // drawn now, in time for the next frame
  scheduled = 0;
  render();
});

async function receive(name, values, quality, signal) {
  try {
    const { axis } = view;
    const data = await ask(`/api/${name}`, { query: { ...values, quality, ...(name === "curves" ? { axis } : {}) }, signal });
    if (quality === "quick" && isSettled(name, query())) return; // the full answer to what is asked now is already there
    if (name === "curves" && axis !== view.axis) return;
    Object.assign(data, { asked: JSON.stringify(values), values });
    answers[name] = data;
    judge(values, "");
    failed.delete(`${name} ${quality}`);
    if (quality === "full") failed.delete(`${name} quick`);
    tell();
    if (quality === "full") schedule();
  } catch (error) {
    fail(`${name} ${quality}`, error, values);
  }
}

function fail(name, error, values) {
  if (error.name === "AbortError") return;
  judge(values, error.wrong ? error.message : ""); // what was said of other values is not said of these
  if (!error.wrong) failed.set(name, error instanceof Refused ? error.message : "the page made a mistake; reload it");
  tell();
  if (!(error instanceof Refused)) throw error;
}

// One sentence above the page, until what it says is over: an answer to one question does not end the silence about another.
function tell() {
  const [silence = ""] = failed.values();
  banner(wrong || silence || bad);
}

// Whether there is such a problem: until the server has said so nothing of it goes into the address or a simulation.
function judge(values, words) {
  if (JSON.stringify(values) !== document.documentElement.dataset.asked || wrong === words) return;
  wrong = words;
  tell();
  controls.mark(words);
  simulation.block(Boolean(words));
  share.block(Boolean(words));
  schedule();
}

const isSettled = (name, values) =>
  answers[name]?.quality === "full" && answers[name].asked === JSON.stringify(values) && (name !== "curves" || onAxis(answers.curves));

const onAxis = (curves) => (curves?.axis ?? view.axis) === view.axis;

function changed(name) {
  if (name) bad = "";
  const values = query();
  share.update(values);
  document.documentElement.dataset.asked = JSON.stringify(values);
  Object.assign(byId("quality").dataset, { quality: "quick", settled: "false" }); // from now on, not from the next frame
  refining.abort();
  clearTimeout(rest);
  if (!name || name !== view.axis || !answers.curves || !onAxis(answers.curves) || !inside(answers.curves)) wanted.add("curves");
  wanted.add("here");
  quick(values);
  simulation.problemChanged();
  why.close();
  panels.changed();
  schedule();
  rest = setTimeout(() => refine(values), REST);
}

async function refine(values) {
  refining = new AbortController();
  const { signal } = refining;
  try {
    await ask("/api/problem", { query: values, signal });
  } catch (error) {
    return fail("problem", error, values);
  }
  judge(values, "");
  failed.delete("problem");
  tell();
  writeAddress();
  simulation.fetchPoints(values);
  await Promise.all([receive("curves", values, "full", signal), receive("here", values, "full", signal)]);
  if (sameMap()) return failed.delete("map full") && tell();
  await new Promise((done) => setTimeout(done, LONG_REST)); // nobody looks at the map between two moves
  if (!signal.aborted) await receive("map", values, "full", signal);
}

// The map is the same for every α and λ on it.
const mapOf = (values) => JSON.stringify({ ...values, exponent: undefined, ridge: undefined });
const sameMap = () => answers.map?.ridge && mapOf(answers.map.values) === mapOf(query());

// ------------------------------------------------------------------ drawing

function schedule() {
  scheduled ||= requestAnimationFrame(() => {
    scheduled = 0;
    render();
  });
}

function notice(id, words) {
  const box = byId(id).parentElement.querySelector(".notice");
  box.textContent = asSentence(words);
  box.hidden = !words;
  byId(id).classList.toggle("empty", Boolean(words));
}

// Whether all that was asked has come from the full theory.
function settled() {
  const { curves, here } = answers;
  const { asked } = document.documentElement.dataset;
  return onAxis(curves) && [here, curves].every((x) => x?.quality === "full" && x.asked === asked);
}

// Draw a figure again only when something it shows has changed, and not while it is pale: its numbers are on the way.
const drawn = {};
function figure(id, inputs, paint, current = true, title = "") {
  if (drawn[id] && drawn[id].title === title && (!current || (byId(id).away && !settled()))) return; // out of sight there is time
  const now = Object.assign([...inputs, byId(id).size], { title }); // as it was last observed: asking for it here would lay the page out once per figure
  if (drawn[id]?.title === title && drawn[id].every((v, i) => v === now[i])) return;
  drawn[id] = now;
  byId(id).repaint = () => paint(byId(id), byId(`legend-${id}`));
  byId(id).repaint();
}

// A curve is the same for every position on its axis, if that is on it.
const curveOf = (values) => JSON.stringify({ ...values, [view.axis]: undefined });
const position = (axis = view.axis) => Number(controls.values[axis]);
const inside = ({ x }) => Boolean(x) && position() >= Math.min(...x) * (1 - 1e-9) && position() <= Math.max(...x) * (1 + 1e-9);

function render() {
  const { curves, here } = answers;
  const { points } = simulation;
  const alpha = Number(controls.values.exponent);
  const { asked } = document.documentElement.dataset;
  const here_ = here?.asked === asked ? here : null; // what was asked for another problem is marked, or not drawn
  const fresh = Boolean(curves) && onAxis(curves) && curveOf(curves.values) === curveOf(query()) && (curves.asked === asked || inside(curves));
  const { gain, pins, quantity } = view;
  const shown = { curves, here: here_, points, alpha, at: position(curves?.axis), fresh, gain, pins, axes: about.axes };
  for (const name of ["test_error", "train_loss", "learned"]) stale(name, !fresh);
  for (const name of ["spectrum", "note-spectrum", "function"]) stale(name, !here_);
  byId("test_error").closest("figure").querySelector("h2").textContent = gain ? "Gain in test error" : "Test error";
  if (curves?.x) {
    for (const [name, what] of [["test_error", "test_error"], ["train_loss", quantity]]) {
      notice(name, curves.test_error.every((v) => v == null) && !points?.test_error?.length ? curves.message : "");
      byId(name).closest("figure").dataset.title = `${gain ? "Gain in " : ""}${QUANTITIES[what].words}`;
      figure(name, [curves, here_, points, shown.at, alpha, fresh, gain, pins, what], (svg, list) => errorFigure(svg, list, what, shown), fresh, `${gain} ${what}`);
    }
    const nothing = curves.degrees.every((k) => curves.fraction[k].every((v) => v == null));
    notice("learned", nothing ? curves.message || "the teacher has no part of degree 1 to 4" : "");
    figure("learned", [curves, here_, points, shown.at, pins], (svg, list) => learnedFigure(svg, list, shown), fresh);
  } else if (curves?.message) for (const name of ["test_error", "train_loss", "learned"]) notice(name, curves.message);
  if (here?.function) {
    notice("function", here.test_error == null && !points?.function ? here.message : "");
    figure("function", [here, curves, points, fresh, pins, drawing.curve, drawing.at], (svg, list) => functionFigure(svg, list, { ...shown, here, own: drawing.series() }), Boolean(here_ || drawing.curve));
  } else if (here?.message) notice("function", here.message);
  const note = byId("note-spectrum");
  note.textContent = note.title = asSentence(here?.spectrum?.message ?? (points?.histogram ? here?.no_spectrum : ""));
  if (here?.spectrum || points?.histogram) {
    notice("spectrum", "");
    figure("spectrum", [here?.spectrum, points], (svg, list) => spectrumFigure(svg, list, { ...shown, here }), Boolean(here_));
  } else if (here?.no_spectrum || here?.message) notice("spectrum", here.no_spectrum || here.message);
  renderMap(alpha);
  renderNetwork(here_, points);
  const done = settled();
  writeQuality(done);
  Object.assign(document.documentElement.dataset, { curves: curves?.asked ?? "", here: here?.asked ?? "" }); // what is drawn
  clearTimeout(writing);
  writing = setTimeout(() => writeWords(done, Boolean(here_) && fresh)); // figures first
}

// Vectors are told by the full theory alone, which has their overlaps; neurons by both.
function renderNetwork(here, points) {
  const known = here?.quality === "full" || points?.network;
  stale("vectors", !known);
  stale("neurons", !here);
  const { spectrum } = here ?? {};
  const none = here?.no_spectrum || (!spectrum && here?.message) || "no eigenvalue leaves the bulk: the leading vectors are no functions of β̂ᵀx";
  const told = points?.network || spectrum?.leading?.some((_, k) => partsOf(spectrum, k));
  if (known) notice("vectors", told ? "" : spectrum?.leading?.length ? "a simulation shows these vectors; theory does not" : none);
  if (known) figure("vectors", [spectrum, points], (svg, list) => vectorsFigure(svg, list, { here, points }));
  if (here?.activation) notice("neurons", points?.network ? "" : here.no_direction);
  if (here?.activation) figure("neurons", [here, points], (svg, list) => neuronsFigure(svg, list, { here, points, values: controls.values }));
}

function renderMap(alpha) {
  const { map } = answers;
  stale("map", !sameMap());
  if (!map) return notice("map", "computed once the other figures have come to rest");
  const ridge = Number(controls.values.ridge);
  notice("map", map.message);
  if (!map.message) figure("map", [map, alpha, ridge], (svg, list) => mapFigure(svg, list, { map, alpha, ridge }));
}

// Which theory is drawn and what is known of it: a full dot only beside a prediction that nothing is known against.
function writeQuality(settled) {
  const { curves, here } = answers;
  const [kind, words] = quality(settled, here, curves);
  byId("quality").textContent = words;
  byId("quality").title = kind === "full" && here.accuracy ? `${words} What to expect of it: ${here.accuracy}.` : words; // it may be longer than its line
  byId("quality").dataset.quality = kind;
  byId("quality").dataset.settled = String(settled);
}

// The quick theory covers less than the full one: what it has no number for may yet get one.
const onTheWay = (settled) => !settled && answers.here?.quality === "quick" && answers.here.test_error == null;

function quality(settled, here, curves) {
  if (wrong) return ["none", "Nothing is computed while a value is wrong."];
  const shown = settled ? here : [here, curves].find((x) => x?.quality === "quick");
  if (!shown) return ["quick", "…"];
  if (onTheWay(settled)) return ["quick", "…"];
  if (shown === here && here.test_error == null) return ["none", "There is no theory for this problem."];
  if (here?.status === "inaccurate") return ["off", asSentence(here.message)];
  const partly = curves?.status?.indexOf("inaccurate") ?? -1;
  const dashed = partly < 0 ? "" : ` Dashed: ${curves.messages[partly]}.`;
  return [settled ? "full" : "quick", `${shown.words ?? "…"}${dashed}`];
}

function writeWords(settled, fresh) {
  const { curves, here } = answers;
  for (const id of ["sentence", "formulas", "sizes"]) stale(id, !fresh);
  if (here?.activation) {
    if (fresh) controls.showSizes(here.d, here.N);
    if (settled || !byId("drawer").hidden) writeFormulas(byId("formulas"), here, { ...about.defaults, ...here.values });
  }
  const words = here?.activation ? sentence(here, curves) : "";
  if (words) byId("sentence").innerHTML = words; // numbers only
  else byId("sentence").textContent = asSentence(onTheWay(settled) ? "the quick theory has no number for this problem; the full one is asked" : here?.message);
  presets.write({ here, curves, map: sameMap() ? answers.map : null, known: fresh });
  if (settled) byId("spoken").textContent = byId("sentence").textContent;
}

function banner(words) {
  byId("banner").textContent = asSentence(words);
  byId("banner").hidden = !words;
}

// ------------------------------------------------------------------ theme

function setUpTheme() {
  byId("theme").addEventListener("click", () => {
    const dark = document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    document.documentElement.dataset.theme = dark === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("theme", document.documentElement.dataset.theme);
    } catch {
      // the choice then lasts until the page is closed
    }
  });
}

async function start() {
  about = await ask("/api/about");
  opening = new Opening({ defaults: about.defaults, show, leave });
  const open = (values) => opening.problem(values);
  controls = new Controls(byId("controls"), about, changed);
  simulation = new Simulation({ query, schedule, values: () => controls.values, open });
  presets = new Presets(byId("preset"), byId("preset-note"), { presets: about.presets, open: (values) => opening.known(values) });
  setUpTheme();
  explain(byId("formulas"), byId("tip"));
  new Drawer(byId("open-formulas"), byId("drawer"), byId("close-formulas"));
  for (const id of ["test_error", "train_loss", "learned"]) dragValue(byId(id), controls);
  pickOnMap(byId("map"), controls, () => answers.map && !answers.map.message);
  for (const box of document.querySelectorAll("figure")) {
    addFiles(box);
    readOut(box.querySelector("svg[role=img]"), byId("tip"));
  }
  const openScene = (values) => {
    presets.close();
    return opening.scene(values);
  };
  const story = new Story(byId("story"), { open: openScene, told: () => view.write() });
  drawing = new Drawing(byId("function"), { teacher: () => answers.here?.function?.teacher ?? [], set: (value) => controls.set("teacher", value), redraw: schedule });
  why = new Why(byId("why"), byId("why-list"), { query, set: (name, value) => controls.set(name, value) });
  panels = new Panels(byId("panels"), { query, go: (best, asked) => opening.best(best, asked), written: () => view.write() });
  view = new View(byId("view"), { scene: () => story.scene, panels: () => panels.hash(), about, query, changed, redraw: schedule });
  new Play(byId("view"), controls);
  const sizes = new ResizeObserver((entries) => { // a legend that gets a second row makes its figure smaller
    for (const { target, contentRect } of entries) target.size = [contentRect.width, contentRect.height].map(Math.round);
    schedule();
  });
  const sight = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) target.away = !isIntersecting;
    schedule();
  });
  for (const svg of document.querySelectorAll(".grid svg[role=img]")) {
    sizes.observe(svg);
    sight.observe(svg);
  }
  share = new Share();
  storeView = new StoreView(open, () => view.hash());
  byId("view-store").addEventListener("click", () => storeView.toggle());
  const read = () => {
    view.read();
    story.read();
  };
  addEventListener("popstate", () => {
    if (location.hash === "#figures") return storeView.shown ? storeView.write() : view.write(); // a place on the page
    storeView.follow();
    if (!storeView.shown) read();
    opening.address();
  });
  read();
  const asked = location.hash;
  await opening.address();
  if (asked.startsWith("#store")) storeView.follow();
  else await panels.read(asked);
}

// The explorer, to show another problem; what it shows besides, for the address.
function leave() {
  storeView.turn(false);
  return view.hash();
}

function show(values, words) {
  bad = words;
  controls.replace(values);
  changed();
  tell();
}


start().catch((error) => banner(error.message));
