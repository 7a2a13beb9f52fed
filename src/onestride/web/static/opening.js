// Opening a problem: from the address, a scene, a preset, the store, an optimum. Of several asked for the last is shown.

import { ask } from "./net.js";
import { rewrite } from "./text.js";

// What is said against a problem; where nobody answers nothing is, if the page can ask about it: that will tell so.
const refusal = (query, plain = true) => ask("/api/problem", { query }).then(() => "", (error) => (error.unanswered && plain ? "" : error.message));

export class Opening {
  constructor({ defaults, show, leave }) {
    Object.assign(this, { defaults, show, leave, turn: 0 });
  }

  // Show a problem, after asking the server whether there is such a problem.
  async problem(values) {
    const turn = (this.turn += 1);
    const words = await refusal(Object.fromEntries(Object.entries(values).filter(([k, v]) => v !== this.defaults[k])));
    if (turn === this.turn) this.go(values, words);
  }

  // One that is known to be one.
  known(values) {
    this.turn += 1; // whatever was on its way comes too late
    this.go({ ...this.defaults, ...values });
  }

  go(values, words = "") {
    rewrite(location.search, this.leave(), "pushState");
    this.end(values, words);
  }

  end(values, words) {
    if (words) this.show(this.defaults, `${words}. The page shows its default problem instead`);
    else this.show(values, "");
  }

  // A scene is the whole problem: what it does not name has its default.
  scene(values) {
    return this.problem({ ...this.defaults, ...values });
  }

  // The optimum of what was asked: d and N stay, so φ goes with n.
  best(best, asked) {
    const number = (x) => String(Number(x.toPrecision(10)));
    const ratios = { n: String(best.n), phi: number(best.d / best.n), psi: number(best.d / best.N), step_samples: number(best.n_step / best.n) };
    return this.problem({ ...this.defaults, ...asked, ...ratios, ridge: number(best.ridge), constant: number(best.constant), exponent: number(best.exponent) });
  }

  // The address is asked about as it stands: a parameter given twice is a mistake.
  async address() {
    const turn = (this.turn += 1);
    const given = new URLSearchParams(location.search);
    const values = { ...this.defaults, ...Object.fromEntries(given) };
    const plain = Object.keys(values).length === Object.keys(this.defaults).length && given.size === new Set(given.keys()).size;
    const words = await refusal(given, plain);
    if (turn === this.turn) this.end(values, words);
  }
}
