// Why are there no spikes, why is the error so large: what is known to go wrong here, each with what to change.

import { ask } from "./net.js";
import { asSentence, element } from "./text.js";

export class Why {
  constructor(button, list, { query, set }) {
    Object.assign(this, { button, list, query, set });
    button.addEventListener("click", () => (list.hidden ? this.open() : this.close()));
  }

  close() {
    this.list.hidden = true;
    this.button.setAttribute("aria-expanded", "false");
  }

  async open() {
    const asked = JSON.stringify(this.query());
    this.list.replaceChildren(element("li", { text: "…" }));
    this.list.hidden = false;
    this.button.setAttribute("aria-expanded", "true");
    const found = await ask("/api/why", { query: this.query() }).catch((error) => ({ message: error.message, failed: true }));
    if (asked === JSON.stringify(this.query())) this.show(found);
  }

  show({ message, findings = [], failed = false }) {
    const rows = findings.map((finding) => {
      const row = element("li", {}, `${asSentence(finding.words)} `);
      if (!Object.keys(finding.set).length) row.append(asSentence(finding.change));
      else {
        const button = element("button", { type: "button", text: finding.change });
        button.addEventListener("click", () => Object.entries(finding.set).forEach(([name, value]) => this.set(name, value)));
        row.append(button);
      }
      return row;
    });
    this.list.replaceChildren(...(rows.length ? rows : [element("li", { text: `${failed ? "" : "Nothing known to go wrong does. "}${asSentence(message)}` })]));
  }
}
