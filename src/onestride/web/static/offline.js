// In place of net.js in an exported page: the answers were computed before, for every stop of four sliders.

import { plainNumber, show } from "./text.js";

const { about, curves, here, laws, points } = JSON.parse(document.getElementById("precomputed").textContent);
const { stops, defaults } = about;
const NO_SERVER = "this is a copy of the page without its server; start it with: onestride explore";

export class Refused extends Error {}

// Numbers that are the same but for their digits, as 1/3 is 0.333333333333; lists part by part.
function same(one, other) {
  const [a, b] = [one, other].map((text) => String(text).split(",").map(plainNumber));
  const close = (x, y) => x === y || (x !== "" && Math.abs(Number(x) - Number(y)) <= 1e-9 * Math.abs(Number(y)));
  return a.length === b.length && a.every((x, i) => close(x, b[i]));
}

// Whatever is not in the file is refused: its numbers would be those of another problem.
function check(query) {
  for (const [name, text] of Object.entries(query)) {
    if (!(name in defaults)) throw new Refused(`'${name}' is not a parameter of this file`);
    const there = stops[name] ?? [defaults[name]];
    if (!there.some((value) => same(text, value))) throw new Refused(`${name} = ${text} is not in this file, which has ${stops[name]?.map((v) => show(v, 4)).join(", ") ?? there[0]}`);
  }
}

const nearest = (name, text) => stops[name].reduce((best, v) => (Math.abs(v - Number(text)) < Math.abs(best - Number(text)) ? v : best));

function place(query) {
  const all = { ...defaults, ...query };
  return Object.fromEntries(Object.keys(stops).map((name) => [name, nearest(name, all[name])]));
}

const curveAt = ({ n, constant, ridge }) => curves[`${n} ${constant} ${ridge}`];

// Along another slider: what its curves against α say at this α.
function along(axis, at) {
  const each = stops[axis].map((value) => curveAt({ ...at, [axis]: value }));
  const i = stops.exponent.indexOf(at.exponent);
  const pick = (of) => each.map((c) => of(c));
  const own = curveAt(at);
  const shares = (of) => Object.fromEntries(own.degrees.map((k) => [k, pick((c) => of(c, k))]));
  const quantities = ["train_loss", "train_mse", "test_error"];
  return {
    ...own,
    axis,
    x: stops[axis],
    ...Object.fromEntries(quantities.map((name) => [name, pick((c) => c[name][i])])),
    fraction: shares((c, k) => c.fraction[k][i]),
    untrained: Object.fromEntries(quantities.map((name) => [name, pick((c) => c.untrained[name])])),
    untrained_fraction: shares((c, k) => c.untrained_fraction[k]),
    baselines: Object.fromEntries(Object.keys(own.baselines).map((k) => [k, pick((c) => c.baselines[k])])),
    status: pick((c) => c.status[i]),
    messages: pick((c) => c.messages[i]),
    limit: null,
    stable: null,
  };
}

function hereAt(at) {
  const [found, curve, i] = [here[`${at.n} ${at.constant} ${at.exponent}`], curveAt(at), stops.exponent.indexOf(at.exponent)];
  const row = Object.fromEntries(["train_loss", "train_mse", "test_error"].map((name) => [name, curve[name][i]]));
  const fraction = Object.fromEntries(curve.degrees.map((k) => [k, curve.fraction[k][i]]));
  const spectrum = found.spectrum && { ...found.spectrum, untrained: laws[at.n] };
  return { ...found, ...row, fraction, spectrum, components: curve.components[i], status: curve.status[i], message: curve.messages[i] };
}

function mapAt(at) {
  const curves = stops.ridge.map((ridge) => curveAt({ ...at, ridge }));
  const table = stops.exponent.map((_, i) => curves.map((c) => c.test_error[i]));
  const off = stops.exponent.map((_, i) => curves.map((c) => c.status[i] === "inaccurate"));
  const cells = table.flatMap((row, i) => row.map((v, j) => ({ alpha: stops.exponent[i], ridge: stops.ridge[j], test_error: v, off: off[i][j] })));
  const best = cells.filter((c) => c.test_error != null && !c.off).sort((a, b) => a.test_error - b.test_error)[0] ?? null;
  const message = cells.every((c) => c.test_error == null) ? curves[0].message : "";
  return { alpha: stops.exponent, ridge: stops.ridge, test_error: table, off, best, message };
}

// One seed was simulated, of the problem that was exported.
const isOwn = (at) => Object.entries(at).every(([name, value]) => value === points.at[name]);

const ANSWERS = {
  "/api/about": () => about,
  "/api/problem": () => ({ query: {}, copies: {} }),
  "/api/points": (query) => ({ version: 0, seeds: 0, ...(points && isOwn(place(query)) ? points : {}) }),
  "/api/simulation": () => ({ job: null, version: 0, runs: [] }),
  "/api/curves": ({ quality, axis, ...query }) => ({ ...(axis === "exponent" ? curveAt(place(query)) : along(axis, place(query))), quality }),
  "/api/map": ({ quality, ...query }) => ({ ...mapAt(place(query)), quality }),
  "/api/here": ({ quality, ...query }) => ({ ...hereAt(place(query)), quality }),
};

export async function ask(path, { query = {} } = {}) {
  if (!(path in ANSWERS)) throw new Refused(NO_SERVER);
  const asked = query instanceof URLSearchParams ? Object.fromEntries(query) : query;
  const { quality, axis, ...problem } = asked;
  check(problem);
  return ANSWERS[path](asked);
}

export const post = async () => {
  throw new Refused(NO_SERVER);
};

export const latest = (call) => call;
