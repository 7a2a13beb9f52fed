// Six scenes, each an address of the page with the figures it is about; the first visit is invited to them.

import { element } from "./text.js";

const SHAPE = { phi: "0.5", psi: "0.3333333333" };
const SPIKES = { n: "2000", phi: "0.5", psi: "1", noise: "0", step_samples: "4", gradient: "labels", activation: "shifted_erf", constant: "4" };
const FOUR = "0,1,0.7071067812,0.4082482905,0.2041241452";
const SCENES = [
  {
    title: "The data",
    words: "Labels depend on the input through one number, z = β⋆ᵀx: the orange curve, plus noise. Nobody tells the network which direction β⋆ is. Press Draw for a teacher of your own.",
    query: { ...SHAPE, constant: "0", exponent: "0" },
    figures: ["function"],
  },
  {
    title: "Random first layer",
    words: "Before any step the neurons point in random directions. With n, d and N of one size, ridge regression on their features learns the straight part of the teacher and nothing else.",
    query: { ...SHAPE, constant: "0", exponent: "0", teacher: FOUR, noise: "0.3" },
    figures: ["function", "learned"],
  },
  {
    title: "The gradient has rank one",
    words: "The first gradient is close to a single direction β, which leans towards β⋆. A step along it pushes one eigenvalue of the features out of the bulk.",
    query: { ...SPIKES, exponent: "0.15" },
    figures: ["spectrum", "neurons"],
  },
  {
    title: "Neurons turn to β",
    words: "The larger the step, the more every neuron looks along β. Press Play over α: the error falls from window to window, and the learned curve begins to bend.",
    query: { ...SHAPE, n: "1200", activation: "softplus", noise: "0", ridge: "0.01", exponent: "0.2" },
    figures: ["test_error", "function", "neurons"],
  },
  {
    title: "Spikes",
    words: "In window ℓ the features hold the powers of z up to the ℓ-th, each with an eigenvalue of its own: three of them here. Move α below 1/3 and 1/4 and they fall back, one by one.",
    query: { ...SPIKES, exponent: "0.355" },
    figures: ["spectrum", "vectors"],
  },
  {
    title: "Ridge learns a polynomial",
    words: "So the fit after the step learns a polynomial of degree ℓ: a staircase in α. At this n its steps are soft; press Play over n and watch them form.",
    query: { n: "1000", phi: "0.25", psi: "0.5", step_samples: "4", activation: "shifted_erf", teacher: FOUR, noise: "0", ridge: "0.01", gradient: "labels", exponent: "0.3", constant: "4" },
    figures: ["learned", "test_error"],
  },
];

export class Story {
  constructor(box, { open, told }) {
    Object.assign(this, { box, open, told, scene: 0 });
    document.getElementById("tell").addEventListener("click", () => this.go(this.scene ? 0 : 1));
  }

  // Scene k of the address, or none; a first visit to the bare page is invited.
  read() {
    if ("offline" in document.documentElement.dataset) return; // its scenes are other problems than the file has
    const k = Number(new URLSearchParams(location.hash.slice(1)).get("scene"));
    this.scene = k >= 1 && k <= SCENES.length ? k : 0;
    this.show();
    if (!this.scene && !location.search && !location.hash && !visited()) this.invite();
  }

  async go(k) {
    this.scene = k;
    this.show();
    if (k) await this.open(SCENES[k - 1].query);
    else this.told();
  }

  invite() {
    const begin = element("button", { type: "button", text: "Tell me in six scenes" });
    begin.addEventListener("click", () => this.go(1));
    this.box.replaceChildren(element("p", { text: "First time here? See what one gradient step does to a network." }), begin, this.close());
    this.box.hidden = false;
  }

  close() {
    const button = element("button", { type: "button", text: "×", "aria-label": "Close the story" });
    button.addEventListener("click", () => this.go(0));
    return button;
  }

  show() {
    this.box.hidden = !this.scene;
    const { title, words, figures } = SCENES[this.scene - 1] ?? { figures: [] };
    for (const figure of document.querySelectorAll(".grid figure")) figure.classList.toggle("told", figures.includes(figure.querySelector("svg[role=img]").id));
    document.getElementById("tell").setAttribute("aria-pressed", String(Boolean(this.scene)));
    if (!this.scene) return;
    if (matchMedia("(min-width: 801px)").matches) document.querySelector(".grid figure.told").scrollIntoView({ block: "nearest" });
    const turn = (step, text) => {
      const button = element("button", { type: "button", text, disabled: !SCENES[this.scene - 1 + step] });
      button.addEventListener("click", () => this.go(this.scene + step));
      return button;
    };
    const head = element("b", { text: `${this.scene}/${SCENES.length} ${title}. ` });
    this.box.replaceChildren(element("p", { "aria-live": "polite" }, head, words), turn(-1, "Back"), turn(1, "Next"), this.close());
  }
}

function visited() {
  try {
    const before = localStorage.getItem("visited");
    localStorage.setItem("visited", "yes");
    return Boolean(before);
  } catch {
    return true; // storage is switched off: no invitation at every visit
  }
}
