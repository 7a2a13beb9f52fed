// A teacher of one's own: drawn with the pointer or the arrow keys, and taken up to degree four as the polynomial that is closest
// to it where z is Gaussian.

import { TEACHER_DEGREES } from "./controls.js";
import { hermiteSum } from "./figures.js";
import { element, show } from "./text.js";

const [LOW, HIGH, POINTS] = [-3, 3, 121];
const GRID = Array.from({ length: POINTS }, (_, i) => LOW + ((HIGH - LOW) * i) / (POINTS - 1));
const FACTORIALS = [1, 1, 2, 6, 24];
const WIDTH = 0.35; // of what an arrow key raises

// Coefficients on H_0 … H_4 of the least squares with the weight of a Gaussian z.
export function project(values) {
  const size = TEACHER_DEGREES + 1;
  const basis = GRID.map((z) => Array.from({ length: size }, (_, k) => hermiteSum(Array.from({ length: k + 1 }, (_, j) => Number(j === k)), z)));
  const weight = GRID.map((z) => Math.exp((-z * z) / 2));
  const sum = (of) => GRID.reduce((total, _, i) => total + weight[i] * of(i), 0);
  const rows = Array.from({ length: size }, (_, k) => [...Array.from({ length: size }, (_, j) => sum((i) => basis[i][k] * basis[i][j])), sum((i) => basis[i][k] * values[i])]);
  for (let k = 0; k < size; k++) // Gauss and Jordan; the matrix is close to the identity
    for (let i = 0; i < size; i++) {
      if (i === k) continue;
      const factor = rows[i][k] / rows[k][k];
      rows[i] = rows[i].map((v, j) => v - factor * rows[k][j]);
    }
  return rows.map((row, k) => row[size] / row[k] / Math.sqrt(FACTORIALS[k]));
}

export class Drawing {
  constructor(svg, { teacher, set, redraw }) {
    Object.assign(this, { svg, teacher, set, redraw, curve: null, at: 60 });
    this.button = element("button", { type: "button", id: "draw", text: "✎ Draw", "aria-pressed": "false", title: "Draw a teacher with the pointer, or with the arrow keys: ← → choose z, ↑ ↓ raise or lower σ⋆ there" });
    this.button.addEventListener("click", () => (this.on || svg.scale) && this.toggle(!this.on)); // a line needs an axis
    svg.closest("figure").querySelector("h2").append(" ", this.button);
    svg.addEventListener("pointerdown", (event) => this.on && !event.altKey && this.begin(event));
    svg.addEventListener("pointermove", (event) => this.last && this.move(event));
    for (const end of ["pointerup", "pointercancel"]) svg.addEventListener(end, () => (this.last = null));
    svg.addEventListener("keydown", (event) => this.on && this.key(event));
  }

  get on() {
    return this.button.getAttribute("aria-pressed") === "true";
  }

  toggle(on) {
    this.button.setAttribute("aria-pressed", String(on));
    this.svg.classList.toggle("drawing", on);
    this.curve = on ? GRID.map((_, i) => this.teacher()[i] ?? 0) : null;
    if (on) this.svg.setAttribute("tabindex", "0");
    else this.svg.removeAttribute("tabindex");
    if (on) this.svg.focus();
    this.redraw();
  }

  place(event) {
    const box = this.svg.getBoundingClientRect();
    const { fromX, fromY } = this.svg.scale;
    return { i: Math.round(((fromX(event.clientX - box.left) - LOW) / (HIGH - LOW)) * (POINTS - 1)), y: fromY(event.clientY - box.top) };
  }

  begin(event) {
    event.preventDefault();
    this.svg.focus();
    this.svg.setPointerCapture(event.pointerId);
    this.last = this.place(event);
    this.move(event);
  }

  // Everything between the last place and this one, on a straight line.
  move(event) {
    const [from, to] = [this.last, this.place(event)];
    const steps = Math.max(1, Math.abs(to.i - from.i));
    for (let k = 0; k <= steps; k++) {
      const i = Math.round(from.i + ((to.i - from.i) * k) / steps);
      if (i >= 0 && i < POINTS) this.curve[i] = from.y + ((to.y - from.y) * k) / steps;
    }
    this.curve = this.curve.slice();
    this.last = to;
    this.take();
  }

  key(event) {
    const sideways = { ArrowLeft: -5, ArrowRight: 5 }[event.key];
    const upwards = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (event.key === "Escape") return this.toggle(false);
    if (!sideways && !upwards) return;
    event.preventDefault();
    this.at = Math.min(POINTS - 1, Math.max(0, this.at + (sideways ?? 0)));
    if (upwards) {
      const height = (upwards * (this.svg.scale.y.high - this.svg.scale.y.low)) / 30;
      this.curve = this.curve.map((v, i) => v + height * Math.exp(-(((GRID[i] - GRID[this.at]) / WIDTH) ** 2) / 2));
      this.take();
    } else this.redraw();
  }

  take() {
    const coefficients = project(this.curve).slice(1).map((c) => Number(c.toFixed(3)));
    while (coefficients.length > 1 && coefficients.at(-1) === 0) coefficients.pop();
    this.set(["0", ...coefficients].join(","));
    this.redraw();
  }

  // What is drawn besides the teacher that was made of it; the teacher has no mean.
  series() {
    if (!this.curve) return [];
    const mean = project(this.curve)[0];
    return [{ kind: "line", x: GRID, y: this.curve.map((v) => v - mean), label: `drawn${this.svg === document.activeElement ? `, at z = ${show(GRID[this.at], 2)}` : ""}`, group: "drawn", colour: 3, style: "dash-3", straight: true }];
  }
}
