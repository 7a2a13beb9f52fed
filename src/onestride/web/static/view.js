// What the figures show besides the problem: their axis, errors or gains, pinned problems. Kept in the address, after the #.

import { AXES, QUANTITIES } from "./figures.js";
import { ask } from "./net.js";
import { element, rewrite } from "./text.js";

const MOST_PINS = 4;

export class View {
  constructor(box, { about, query, scene, panels, changed, redraw }) {
    Object.assign(this, { about, query, scene, panels, changed, redraw, axis: "exponent", gain: false, quantity: "train_loss", pins: [] });
    this.axisChoice = choice("axis", Object.fromEntries(Object.keys(about.axes).map((name) => [name, AXES[name].symbol])));
    this.axisChoice.addEventListener("change", () => this.set({ axis: this.axisChoice.value }));
    this.gainBox = element("input", { type: "checkbox", id: "gain" });
    this.gainBox.addEventListener("change", () => this.set({ gain: this.gainBox.checked }));
    this.pinButton = element("button", { type: "button", id: "pin", text: "Pin", title: "Keep these curves to compare with" });
    this.pinButton.addEventListener("click", () => this.pin());
    this.list = element("ul", { id: "pins", "aria-label": "Pinned problems" });
    box.append(element("label", {}, "against ", this.axisChoice), element("label", { title: "Error without the step minus error with it" }, this.gainBox, " gain"), this.pinButton, this.list);
    this.quantityChoice = document.getElementById("quantity");
    for (const [value, { words }] of Object.entries(QUANTITIES)) if (value !== "test_error") this.quantityChoice.append(element("option", { value, text: words }));
    this.quantityChoice.addEventListener("change", () => this.set({ quantity: this.quantityChoice.value }));
  }

  set(values) {
    Object.assign(this, values);
    this.show();
    this.write();
    if ("axis" in values) {
      this.pins.forEach((pin) => this.fetch(pin));
      this.changed();
    } else this.redraw();
  }

  show() {
    this.axisChoice.value = this.axis;
    this.gainBox.checked = this.gain;
    this.quantityChoice.value = this.quantity;
    this.pinButton.disabled = this.pins.length >= MOST_PINS;
    this.list.replaceChildren(...this.pins.map((pin) => this.chip(pin)));
  }

  // ------------------------------------------------------------------ pins

  chip(pin) {
    const name = element("input", { type: "text", value: pin.name, size: Math.max(2, pin.name.length), maxlength: 24, "aria-label": "Name of the pinned problem", title: pin.words });
    name.addEventListener("change", () => {
      pin.name = name.value.trim() || pin.name;
      this.set({ pins: [...this.pins] });
    });
    const remove = element("button", { type: "button", text: "×", "aria-label": `Remove ${pin.name}` });
    remove.addEventListener("click", () => this.set({ pins: this.pins.filter((other) => other !== pin) }));
    return element("li", { class: "chip" }, name, remove);
  }

  pin() {
    const name = "ABCDEFGH".split("").find((letter) => !this.pins.some((pin) => pin.name === letter));
    const pin = { name, query: this.query() };
    this.set({ pins: [...this.pins, pin] });
    this.fetch(pin);
  }

  async fetch(pin) {
    const { axis } = this;
    pin.words = new URLSearchParams(pin.query).toString() || "the default problem";
    const query = { ...pin.query, quality: "full" };
    const found = await Promise.all([ask("/api/curves", { query: { ...query, axis } }), ask("/api/here", { query })]).catch(() => null);
    if (!found || axis !== this.axis) return;
    [pin.curves, pin.here] = found;
    this.pins = [...this.pins];
    this.redraw();
  }

  // ------------------------------------------------------------------ the address

  read() {
    const given = new URLSearchParams(location.hash.slice(1));
    this.axis = given.get("axis") in this.about.axes ? given.get("axis") : "exponent";
    this.gain = given.get("gain") === "1";
    this.quantity = given.get("show") in QUANTITIES ? given.get("show") : "train_loss";
    this.pins = given.getAll("pin").slice(0, MOST_PINS).map((text) => {
      const [name, ...rest] = text.split("?");
      return { name: name.slice(0, 24) || "A", query: Object.fromEntries(new URLSearchParams(rest.join("?"))) };
    });
    this.show();
    this.pins.forEach((pin) => this.fetch(pin));
  }

  hash() {
    const told = new URLSearchParams();
    if (this.scene()) told.set("scene", this.scene());
    for (const [name, value] of Object.entries(this.panels())) told.set(name, value);
    if (this.axis !== "exponent") told.set("axis", this.axis);
    if (this.gain) told.set("gain", "1");
    if (this.quantity !== "train_loss") told.set("show", this.quantity);
    for (const pin of this.pins) told.append("pin", `${pin.name}?${new URLSearchParams(pin.query)}`);
    return told.size ? `#${told}` : "";
  }

  write() {
    if (document.getElementById("store").hidden) rewrite(location.search, this.hash()); // the store has an address of its own
  }
}

function choice(id, options) {
  const select = element("select", { id });
  for (const [value, text] of Object.entries(options)) select.append(element("option", { value, text }));
  return select;
}
