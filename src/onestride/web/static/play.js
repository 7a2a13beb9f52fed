// Play: one slider runs from end to end while the quick theory follows, frame by frame.

import { element } from "./text.js";

const SECONDS = 14;
const OVER = { n: "over n", exponent: "over α", constant: "over c" };

export class Play {
  constructor(box, controls) {
    this.controls = controls;
    this.button = element("button", { type: "button", id: "play", "aria-pressed": "false" });
    this.over = element("select", { id: "play-over", "aria-label": "What is played over" });
    for (const [value, text] of Object.entries(OVER)) this.over.append(element("option", { value, text }));
    this.over.addEventListener("change", () => this.running && this.start());
    this.button.addEventListener("click", () => (this.running ? this.stop() : this.start()));
    document.addEventListener("keydown", (event) => event.key === "Escape" && this.stop());
    box.append(element("span", { class: "pair" }, this.button, this.over));
    this.stop();
  }

  start() {
    const name = this.over.value;
    const { s, range } = this.controls.inputs[name];
    const [low, high] = [Number(range.min), Number(range.max)];
    const now = Number(range.value);
    const from = now < high ? (now - low) / (high - low) : 0; // from where the slider is, or again from the beginning
    const begun = performance.now() - 1000 * SECONDS * from;
    const run = (this.running = {}); // one at a time, also where one is ended and another begun within a frame
    this.label();
    const frame = (time) => {
      if (this.running !== run) return;
      const share = Math.min(1, (time - begun) / 1000 / SECONDS);
      this.controls.set(name, this.controls.fromRange(s, low + share * (high - low)));
      if (share < 1) requestAnimationFrame(frame);
      else this.stop();
    };
    requestAnimationFrame(frame);
  }

  stop() {
    this.running = null;
    this.label();
  }

  label() {
    this.button.textContent = this.running ? "❚❚ Stop" : "▶ Play";
    this.button.setAttribute("aria-pressed", String(Boolean(this.running)));
  }
}
