// The page: one problem, its address, theory that follows the sliders, and the simulation beside it.

import { Controls } from "./controls.js";
import { errorFigure, learnedFigure, spectrumFigure } from "./figures.js";
import { explain, sentence, writeFormulas } from "./formulas.js";
import { Refused, ask, latest } from "./net.js";
import { Share } from "./share.js";
import { Simulation } from "./simulate.js";
import { StoreView } from "./store.js";
import { asSentence, element } from "./text.js";

const REST = 200; // ms without input after which the full theory is asked for
const byId = (id) => document.getElementById(id);

const view = { curves: null, here: null, points: null };
let about;
let controls;
let simulation;
let share;
let rest;
let writing;
let refining = new AbortController();
let scheduled = false;
let keepBanner = false; // a bad address stays told until something is changed

// ------------------------------------------------------------------ the address

function query() {
  return Object.fromEntries(Object.entries(controls.values).filter(([k, v]) => v !== about.defaults[k]));
}

function writeAddress() {
  const text = new URLSearchParams(query()).toString().replaceAll("%2C", ",");
  const address = `${location.pathname}${text ? `?${text}` : ""}${location.hash}`;
  if (address !== location.pathname + location.search + location.hash) history.replaceState(null, "", address);
}

function readAddress() {
  return { ...about.defaults, ...Object.fromEntries(new URLSearchParams(location.search)) };
}

// ------------------------------------------------------------------ theory

const wanted = new Set(); // of the quick answers; both are drawn in one frame
const quick = latest(async (values) => {
  const names = [...wanted];
  wanted.clear();
  await Promise.all(names.map((name) => receive(name, values, "quick")));
  schedule();
});

async function receive(name, values, quality, signal) {
  try {
    const data = await ask(`/api/${name}`, { query: { ...values, quality }, signal });
    if (quality === "quick" && isSettled(name, values)) return; // the full answer is already there
    data.asked = JSON.stringify(values);
    if (name === "here") data.alpha = Number(values.exponent ?? about.defaults.exponent);
    view[name] = data;
    if (!keepBanner) banner("");
    if (quality === "full") schedule();
  } catch (error) {
    if (error.name !== "AbortError") banner(error instanceof Refused ? error.message : "the page made a mistake; reload it");
    if (!(error instanceof Refused) && error.name !== "AbortError") throw error;
  }
}

const isSettled = (name, values) => view[name]?.quality === "full" && view[name].asked === JSON.stringify(values);

function changed(name) {
  if (name) keepBanner = false;
  const values = query();
  share.update(values);
  document.documentElement.dataset.asked = JSON.stringify(values);
  byId("quality").dataset.quality = "quick";
  refining.abort();
  clearTimeout(rest);
  if (name !== "exponent" || Number(controls.values.exponent) < 0 || !view.curves) wanted.add("curves");
  wanted.add("here");
  quick(values);
  simulation.problemChanged();
  schedule();
  rest = setTimeout(() => refine(values), REST);
}

async function refine(values) {
  writeAddress();
  refining = new AbortController();
  const { signal } = refining;
  simulation.fetchPoints(values);
  await Promise.all([receive("curves", values, "full", signal), receive("here", values, "full", signal)]);
}

// ------------------------------------------------------------------ drawing

function schedule() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    render();
  });
}

function notice(id, words) {
  const box = byId(id).parentElement.querySelector(".notice");
  box.textContent = asSentence(words);
  box.hidden = !words;
  byId(id).classList.toggle("empty", Boolean(words));
}

// Draw a figure again only when something it shows has changed.
const drawn = {};
function figure(id, inputs, paint) {
  const now = [...inputs, byId(id).clientWidth, byId(id).clientHeight];
  if (drawn[id]?.every((v, i) => v === now[i])) return;
  drawn[id] = now;
  paint(byId(id), byId(`legend-${id}`));
}

function render() {
  const { curves, here } = view;
  const { points } = simulation;
  const alpha = Number(controls.values.exponent);
  const here_ = here?.alpha === alpha ? here : null; // what was asked for another α is not drawn at this one
  const shown = { curves, here: here_, points, alpha };
  if (curves?.alpha) {
    for (const name of ["test_error", "train_loss"]) {
      notice(name, curves[name].every((v) => v == null) ? curves.message : "");
      figure(name, [curves, here_?.[name], points, alpha], (svg, list) => errorFigure(svg, list, name, shown));
    }
    const nothing = curves.degrees.every((k) => curves.fraction[k].every((v) => v == null));
    notice("learned", nothing ? curves.message || "the teacher has no part of degree 1 to 4" : "");
    figure("learned", [curves, points, alpha], (svg, list) => learnedFigure(svg, list, shown));
  } else if (curves?.message) for (const name of ["test_error", "train_loss", "learned"]) notice(name, curves.message);
  if (here?.spectrum) {
    notice("spectrum", "");
    figure("spectrum", [here.spectrum, points], (svg, list) => spectrumFigure(svg, list, { ...shown, here }));
  } else if (here?.message) notice("spectrum", here.message);
  const { asked } = document.documentElement.dataset;
  const settled = [here, curves].every((x) => x?.quality === "full" && x.asked === asked);
  byId("quality").textContent = (settled ? here : [here, curves].find((x) => x?.quality === "quick"))?.words ?? "…";
  byId("quality").title = here?.accuracy ? `What to expect of it: ${here.accuracy}.` : "";
  byId("quality").dataset.quality = settled ? "full" : "quick";
  Object.assign(document.documentElement.dataset, { curves: curves?.asked ?? "", here: here?.asked ?? "" }); // what is drawn
  clearTimeout(writing);
  writing = setTimeout(() => writeWords(settled)); // figures first
}

function writeWords(settled) {
  const { curves, here } = view;
  if (here?.activation) {
    controls.showSizes(here.d, here.N);
    writeFormulas(byId("formulas"), here, controls.values);
  }
  const words = here?.activation ? sentence(here, curves) : "";
  if (words) byId("sentence").innerHTML = words; // numbers only
  else byId("sentence").textContent = asSentence(here?.message);
  if (settled) byId("spoken").textContent = byId("sentence").textContent;
}

function banner(words) {
  byId("banner").textContent = asSentence(words);
  byId("banner").hidden = !words;
}

// ------------------------------------------------------------------ α can be dragged in the figures

function dragExponent(svg) {
  const move = (event) => {
    const px = event.clientX - svg.getBoundingClientRect().left;
    const alpha = svg.scale?.fromX(px);
    if (alpha != null) controls.set("exponent", String(Number((Math.round(alpha / 0.005) * 0.005).toFixed(3))));
  };
  svg.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "touch") return; // a touch scrolls the page
    svg.setPointerCapture(event.pointerId);
    move(event);
    svg.addEventListener("pointermove", move);
  });
  svg.addEventListener("pointerup", () => svg.removeEventListener("pointermove", move));
  svg.addEventListener("pointercancel", () => svg.removeEventListener("pointermove", move));
}

// ------------------------------------------------------------------ presets, theme

function setUpPresets() {
  const select = byId("preset");
  for (const group of new Set(about.presets.map((p) => p.group))) {
    const box = element("optgroup", { label: group });
    about.presets.forEach((p, i) => p.group === group && box.append(element("option", { value: i, text: p.name })));
    select.append(box);
  }
  select.addEventListener("change", () => {
    const preset = about.presets[Number(select.value)];
    if (select.value === "" || !preset) return;
    history.pushState(null, "", location.pathname + location.search);
    controls.replace({ ...about.defaults, ...preset.query });
    changed();
    byId("preset-note").textContent = `${preset.question}${preset.beyond ? ` (${preset.beyond})` : ""}`;
    byId("preset-note").hidden = false;
    select.value = "";
  });
}

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
  controls = new Controls(byId("controls"), about, changed);
  simulation = new Simulation({ query, schedule, values: () => controls.values, open: openProblem });
  share = new Share();
  setUpPresets();
  setUpTheme();
  explain(byId("formulas"), byId("tip"));
  for (const id of ["test_error", "train_loss", "learned"]) dragExponent(byId(id));
  new ResizeObserver(schedule).observe(byId("figures"));
  const storeView = new StoreView(openProblem);
  byId("view-store").addEventListener("click", () => storeView.toggle());
  addEventListener("popstate", () => openProblem(readAddress(), false));
  await openProblem(readAddress(), false);
  if (location.hash.startsWith("#store")) storeView.toggle();
}

// Show a problem, after asking the server whether there is such a problem.
async function openProblem(values, push = true) {
  const bad = await ask("/api/problem", { query: Object.fromEntries(Object.entries(values).filter(([k, v]) => v !== about.defaults[k])) })
    .then(() => null)
    .catch((error) => error);
  if (bad) {
    banner(`${bad.message}. The page shows its default problem instead`);
    controls.replace(about.defaults);
    keepBanner = true;
    changed();
    return;
  }
  if (push) history.pushState(null, "", location.pathname + location.search);
  controls.replace(values);
  changed();
}

start().catch((error) => banner(error.message));
