// The simulation: start, watch, cancel; points arrive as seeds finish. Every tab watches the same job: while it runs a tab
// asks for news, otherwise only when another tab gave a command or when it comes to the front.

import { Refused, ask, latest, post } from "./net.js";
import { asSentence, element, show } from "./text.js";

const byId = (id) => document.getElementById(id);
const NEWS = 400; // ms between two looks at a job that runs

export class Simulation {
  constructor({ query, schedule, values, open }) {
    Object.assign(this, { query, schedule, values, open });
    this.points = null;
    this.blocked = false;
    this.version = -1;
    this.last = null;
    this.silence = ""; // why there is no news
    this.look = latest(() => this.hear()); // one after another: an older answer never comes last
    this.fetchPoints = latest((query) => this.askPoints(query));
    byId("simulate").addEventListener("submit", (event) => {
      event.preventDefault();
      this.start();
    });
    byId("cancel").addEventListener("click", () => this.command("cancel", {}));
    this.tabs = new BroadcastChannel("onestride simulation"); // the other tabs of this page
    this.tabs.addEventListener("message", () => this.look());
    document.addEventListener("visibilitychange", () => this.look());
    addEventListener("focus", () => this.look());
    this.look();
  }

  problemChanged() {
    this.points = null;
    this.refusal = "";
    this.label();
  }

  label() {
    byId("run").textContent = this.blocked ? "Simulate" : `Simulate at n = ${show(Number(this.values().n), 4)}`;
    byId("run").disabled = this.blocked || this.last?.job?.state === "running";
  }

  // While a value is wrong there is nothing to simulate.
  block(blocked) {
    this.blocked = blocked;
    this.label();
  }

  async start() {
    const seeds = byId("seeds").valueAsNumber;
    await this.command("start", { query: this.query(), seeds: Number.isFinite(seeds) ? seeds : byId("seeds").value });
  }

  async command(name, data) {
    try {
      const told = await post(`/api/simulation/${name}`, data);
      this.last = { ...this.last, job: "job" in told ? told.job : told }; // so that news is asked for, also where the next look fails
      this.refusal = "";
    } catch (error) {
      this.refusal = error.message;
    }
    this.tabs.postMessage(name);
    this.look();
  }

  async hear() {
    clearTimeout(this.next);
    if (document.hidden) return;
    try {
      this.last = await ask("/api/simulation");
      this.silence = "";
    } catch (error) {
      this.missed(error);
    }
    this.show();
    if (!this.silence && !this.blocked && this.last.version !== this.version) await this.fetchPoints(this.query());
    if (this.last?.job?.state === "running") this.next = setTimeout(() => this.look(), NEWS);
  }

  missed(error) {
    if (!(error instanceof Refused)) throw error;
    this.silence = error.message;
    this.show();
  }

  async askPoints(query) {
    const asked = JSON.stringify(query);
    try {
      const found = await ask("/api/points", { query });
      if (asked !== JSON.stringify(this.query())) return; // the problem has moved on
      this.version = found.version;
      this.points = found;
      this.silence = "";
      this.show();
      this.schedule();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (asked !== JSON.stringify(this.query())) return;
      this.version = -1; // asked again at the next look
      if (error.unanswered) this.missed(error); // what is wrong with a value is said elsewhere
    }
  }

  show() {
    const job = this.last?.job;
    const running = job?.state === "running";
    byId("cancel").hidden = byId("job-progress").hidden = !running;
    this.label();
    if (running) byId("job-progress").value = job.done / job.total;
    const words = this.refusal || this.silence ? asSentence(this.refusal || this.silence) : job ? describe(job) : "";
    if (byId("job-state").textContent !== words) byId("job-state").textContent = words;
    byId("job-state").classList.toggle("refused", Boolean(this.refusal || this.silence) || job?.state === "failed");
    this.list(this.last?.runs ?? []);
  }

  list(runs) {
    const text = JSON.stringify(runs);
    if (this.listed === text) return;
    this.listed = text;
    byId("runs").hidden = runs.length === 0;
    byId("runs").querySelector("summary").textContent = `Stored (${runs.length})`;
    byId("run-list").replaceChildren(
      ...[...runs].reverse().map((run) => {
        const button = element("button", { type: "button", text: run.words });
        button.addEventListener("click", () => this.open(run.query));
        return element("li", {}, button);
      }),
    );
  }
}

function describe(job) {
  const seeds = Math.floor(job.done / (job.total / job.seeds));
  if (job.state === "running") {
    const left = job.done ? ` · about ${duration((job.seconds / job.done) * (job.total - job.done))} left` : "";
    return `${seeds} of ${job.seeds} seeds at n = ${show(job.n, 4)}${left}`;
  }
  if (job.state === "done") return `${job.seeds} seeds finished, n = ${show(job.n, 4)}.${job.tails ? ` ${job.tails}.` : ""}`;
  if (job.state === "cancelled") return `Cancelled at n = ${show(job.n, 4)}; ${seeds} finished ${seeds === 1 ? "seed is" : "seeds are"} stored.`;
  return `The simulation stopped: ${job.message}. ${seeds} finished seeds are stored.`;
}

function duration(seconds) {
  return seconds < 90 ? `${Math.max(1, Math.round(seconds))} s` : `${Math.round(seconds / 60)} min`;
}
