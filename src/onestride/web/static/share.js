// Copying the problem and downloading what is shown.

import { ask } from "./net.js";
import { toast } from "./text.js";

export class Share {
  constructor() {
    this.query = {};
    document.getElementById("copy").addEventListener("click", (event) => {
      const what = event.target.dataset?.copy;
      if (what) this.copy(what, event.target.textContent);
    });
    document.getElementById("download").addEventListener("click", (event) => {
      if (event.target.ariaDisabled === "true") event.preventDefault();
    });
    for (const menu of document.querySelectorAll("details.menu")) {
      menu.addEventListener("keydown", (event) => {
        if (event.key !== "Escape") return;
        menu.open = false;
        menu.querySelector("summary").focus();
      });
      menu.addEventListener("focusout", (event) => {
        if (!menu.contains(event.relatedTarget)) menu.open = false;
      });
      menu.addEventListener("click", (event) => {
        if (event.target.matches("button, a")) menu.open = false;
      });
    }
  }

  update(query) {
    this.query = query;
    const text = new URLSearchParams(query).toString();
    for (const kind of ["pdf", "csv"]) document.getElementById(`download-${kind}`).href = `/download/figure.${kind}${text ? `?${text}` : ""}`;
  }

  // While a value is wrong there is nothing to copy and nothing to download.
  block(blocked) {
    for (const button of document.querySelectorAll("#copy button")) button.disabled = blocked;
    for (const link of document.querySelectorAll("#download a")) link.setAttribute("aria-disabled", String(blocked));
  }

  async copy(what, words) {
    try {
      const text = what === "address" ? location.href : (await ask("/api/problem", { query: this.query })).copies[what];
      await write(text);
      toast(`Copied ${words}.`);
    } catch (error) {
      toast(error.message);
    }
  }
}

async function write(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea"); // a page that is not on this machine has no clipboard
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) throw new Error("the browser does not let the page copy");
}
