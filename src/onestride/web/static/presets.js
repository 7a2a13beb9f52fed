// A preset asks a question. The note under the title has it, with the page's answer for whatever the controls show by then.

import { QUANTITIES } from "./figures.js";
import { asSentence, element, listed, percent, show, steady } from "./text.js";

const between = (values, unit) => listed(values.map((v) => unit(v)));

// What the page says now; nothing while it does not know.
export const ANSWERS = {
  error: (f, c) => `Now ${steady(c.before.test_error)} without the step, ${steady(f.test_error)} with it; the ridge objective is ${steady(f.train_loss)}, ${steady(c.before.train_loss)} without.`,
  spikes: (f) => (f.spectrum?.edge != null ? `Now ${f.spectrum.leading.length || "none"}${f.spectrum.leading.length ? `, at ${between(f.spectrum.leading, show)}` : ""}; as n → ∞ ${f.spectrum.expected?.length ?? f.window ?? "–"}.` : ""),
  shares: (f) => Object.keys(f.fraction).length === 0 ? "" : `Now ${between(Object.entries(f.fraction), ([k, v]) => `${percent(v)} of degree ${k}`)}.`,
  direction: (f) => f.no_direction ? asSentence(f.no_direction) : `Now along β with cos(β, β⋆) = ${show(f.overlap)}: ${show((Math.acos(Math.min(1, f.overlap)) * 180) / Math.PI, 2)}° off.`,
  vectors: (f) => (f.spectrum?.degrees?.length && f.spectrum.degrees.every(Boolean) ? `Now ${between(f.spectrum.degrees, (k) => `z${k > 1 ? "²³⁴"[k - 2] : ""}`)} of z = β̂ᵀx, which makes up ${between(f.spectrum.on_direction, percent)} of each.` : ""),
  expansion: (f) => (f.expansion?.distance == null ? "" : `Now ${percent(f.expansion.distance / f.expansion.norm)} of ‖F‖, along β.`),
  best: (f, c, { map }) => (map?.best ? `Now α = ${show(map.best.alpha)} and λ = ${show(map.best.ridge, 2)}, with an error of ${steady(map.best.test_error)}; here it is ${steady(f.test_error)}.` : ""),
  linear: (f, c) => `Now an error of ${steady(f.test_error)}; ${c.before["linear-ridge"] == null ? "" : `ridge regression on the inputs has ${steady(c.before["linear-ridge"])}, `}without the step ${steady(c.before.test_error)}.`,
  gain: (f, c) => steady(f.test_error) === steady(c.before.test_error) ? `Now the step leaves the test error at ${steady(f.test_error)}.` : `Now the step ${f.test_error <= c.before.test_error ? "gains" : "loses"} ${show(Math.abs(c.before.test_error - f.test_error))}: from ${steady(c.before.test_error)} to ${steady(f.test_error)}.`,
  limit: (f, c) => {
    const limit = c.limit?.test_error?.[f.window - 1];
    return limit == null ? "" : `Now ${steady(f.test_error)}, in the limit ${steady(limit)}: ${percent(f.test_error / limit - 1)} apart.`;
  },
  stable: (f, c) => `${ANSWERS.shares(f)} ${f.stable ? (f.stable.value < f.stable.bound ? "They are stable." : "They are not stable.") : ""} The test error is ${steady(f.test_error)}, ${steady(c.before.test_error)} without a step.`,
};

export class Presets {
  constructor(select, note, { presets, open }) {
    Object.assign(this, { note, chosen: null });
    for (const group of new Set(presets.map((p) => p.group))) {
      const box = element("optgroup", { label: group });
      presets.forEach((p, i) => p.group === group && box.append(element("option", { value: i, text: p.name })));
      select.append(box);
    }
    select.addEventListener("change", () => {
      const preset = presets[Number(select.value)];
      if (select.value === "" || !preset) return;
      select.value = "";
      this.chosen = preset;
      open(preset.query);
      this.write({});
    });
    note.addEventListener("click", (event) => event.target.matches("button") && this.close());
  }

  close() {
    this.chosen = null;
    this.note.hidden = true;
  }

  // The question, and the answer once its numbers are there.
  write({ here, curves, map, known }) {
    this.note.hidden = !this.chosen;
    if (!this.chosen) return;
    const { question, answer, hint } = this.chosen;
    const ready = known && here?.test_error != null && curves?.before && QUANTITIES.test_error.of(curves.before) != null;
    const words = ready ? ANSWERS[answer](here, curves, { map }) : here?.test_error == null && known ? here?.message ?? "" : "";
    this.note.replaceChildren(question, " ", element("b", { text: words }), hint ? ` (${hint})` : "", " ", element("button", { type: "button", text: "×", "aria-label": "Close the question" }));
  }
}
