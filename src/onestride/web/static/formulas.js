// The formulas of the theory in MathML, with the numbers of the current problem, each symbol explained on hover or focus.

import { asSentence, listed, percent, show, steady } from "./text.js";

const SYMBOLS = {
  eta: "η: the size of the gradient step",
  c: "c: the constant of the step",
  n: "n: samples of the ridge regression",
  alpha: "α: the exponent of the step; the horizontal axis",
  ell: "ℓ: the window α lies in; as n → ∞ the step learns polynomials up to this degree",
  y: "y: the label",
  cstar: "c⋆ₖ: coefficient of the teacher on the Hermite polynomial of degree k",
  H: "Hₖ: Hermite polynomial of degree k (probabilists')",
  z: "z = β⋆ᵀx: the input along the teacher's direction",
  noise: "σ_ε: standard deviation of the label noise; ε is standard normal",
  beta: "β: the direction the gradient finds, Xᵀr/n",
  betastar: "β⋆: the teacher's direction, of length 1",
  s: "s = |β|: its length; s² = c⋆₁² + d·E r²/(samples of the step), plus c₁² for the full gradient",
  F: "F: features after the step, σ(X̃Wᵀ) on fresh data",
  F0: "F₀: features before the step, σ(X̃W₀ᵀ)",
  ck: "cₖ: Hermite coefficient of the activation of degree k",
  X: "X̃: the n fresh inputs of the ridge regression",
  a: "a: the readout weights, of variance 1/N",
  k: "k: degree",
  lambda: "λ: the ridge penalty",
  ahat: "â: the fitted second layer",
  ytilde: "ỹ: labels of the ridge regression",
  fhat: "f̂: the fitted predictor, âᵀσ(Wx)",
  E: "E: expectation over fresh data, label noise included",
  d: "d: inputs; φ = d/n",
  N: "N: neurons; ψ = d/N",
};

const sym = (name, body) => `<mrow class="sym" data-symbol="${name}" role="button" aria-label="${SYMBOLS[name].replace(/"/g, "")}" tabindex="-1">${body}</mrow>`;
const mi = (text) => `<mi>${text}</mi>`;
const mo = (text) => `<mo stretchy="false">${text}</mo>`;
// 1.5·10⁹ with its exponent as an exponent of the formula
const unsigned = (text) => {
  const [, size, power] = text.match(/^(.*·)?10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)$/) ?? [];
  if (!power) return `<mn>${text}</mn>`;
  const digits = [...power].map((c) => (c === "⁻" ? "−" : "⁰¹²³⁴⁵⁶⁷⁸⁹".indexOf(c))).join("");
  return `<mrow>${size ? `<mn>${size.slice(0, -1)}</mn><mo>·</mo>` : ""}<msup><mn>10</mn><mn>${digits}</mn></msup></mrow>`;
};
const mn = (x, digits = 3) => {
  const text = show(x, digits);
  return text.startsWith("−") ? `<mrow><mo>−</mo>${unsigned(text.slice(1))}</mrow>` : unsigned(text);
};
const base = (x) => (/·|10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]/.test(show(x)) ? `<mrow>${mo("(")}${mn(x)}${mo(")")}</mrow>` : mn(x)); // (10⁹)^0.29
const sup = (base, top) => `<msup>${base}${top}</msup>`;
const sub = (base, low) => `<msub>${base}${low}</msub>`;
const SMALL_REST = 0.2; // of ‖F‖: F ≈ F_ℓ is said up to here
const MOST_TERMS = 3;
const SHOWN = 4; // parts of the teacher
const UNKNOWN = "<p>How well a sum of spikes stands for F is not known here.</p>";
const frac = (top, low) => `<mfrac><mrow>${top}</mrow><mrow>${low}</mrow></mfrac>`;
const math = (...parts) => `<math display="block"><mrow>${parts.join("")}</mrow></math>`;

const eta = sym("eta", mi("η"));
const alpha = sym("alpha", mi("α"));
const ell = sym("ell", mi("ℓ"));
const beta = sym("beta", mi("β"));
const betaStar = sym("betastar", sub(mi("β"), mo("⋆")));
const cStar = (k) => sym("cstar", `<msubsup>${mi("c")}${k}${mo("⋆")}</msubsup>`);
const F0 = sym("F0", sub(mi("F"), "<mn>0</mn>"));
const X = sym("X", `<mover>${mi("X")}${mo("~")}</mover>`);
const fhat = sym("fhat", `<mover>${mi("f")}${mo("^")}</mover>`);
const ahat = sym("ahat", `<mover>${mi("a")}${mo("^")}</mover>`);

function teacherSum(teacher, noise, named) {
  const terms = teacher
    .map((c, k) => [c, k])
    .filter(([c, k]) => k > 0 && Math.abs(c) > 1e-12)
    .slice(0, SHOWN)
    .map(([c, k], i) => {
      const sign = c < 0 ? mo("−") : i ? mo("+") : "";
      const size = Math.abs(Math.abs(c) - 1) < 1e-12 ? "" : mn(Math.abs(c));
      return `${sign}${size}${sym("H", sub(mi("H"), `<mn>${k}</mn>`))}`;
    });
  if (!terms.length) terms.push("<mn>0</mn>");
  if (named || teacher.filter((c, k) => k > 0 && Math.abs(c) > 1e-12).length > SHOWN) terms.push(mo("+") + mo("…"));
  if (noise > 0) terms.push(`${mo("+")}${sym("noise", mn(noise) + mi("ε"))}`);
  return [terms.slice(0, 3).join(""), terms.slice(3).join("")].filter(Boolean); // two lines when it is long
}

// Labels of several directions: how σ⋆ of each coordinate makes them, and σ⋆.
function mixed(f, values, named) {
  const star = (j) => `${sub(mi("σ"), mo("⋆"))}${mo("(")}${sub(sym("z", mi("z")), `<mn>${j}</mn>`)}${mo(")")}`;
  const product = (j) => Array.from({ length: j }, (_, i) => star(i + 1)).join("");
  const terms = Array.from({ length: f.directions }, (_, i) => (values.mix === "sum" ? star(i + 1) : product(i + 1))).join(mo("+"));
  const noise = Number(values.noise) > 0 ? `${mo("+")}${sym("noise", mn(Number(values.noise)) + mi("ε"))}` : "";
  const inner = teacherSum(f.link, 0, named).map((line, i) => math(i ? "" : sub(mi("σ"), mo("⋆")) + mo("="), line));
  return [math(sym("y", mi("y")), mo("="), frac(terms, `<msqrt><mn>${f.directions}</mn></msqrt>`), noise), ...inner];
}

// ‖size·(X̃β)^∘k (a^∘k)ᵀ‖/√n for many samples and neurons: both are Gaussian, with E z^2k = (2k − 1)!!, or a is ±1/√N.
function termNorm(f, k, size, law) {
  const moment = [1, 1, 3, 15][k];
  return size * Math.sqrt(moment) * f.length ** k * Math.sqrt(law === "gaussian" ? moment : 1) * f.N ** ((1 - k) / 2);
}

// Power of each degree of the labels, c⋆ₖ²k!, and of the noise: they add up to E y².
function powers(f, values) {
  const degrees = f.teacher.map((c, k) => [`degree ${k}`, c * c * [1, 1, 2, 6, 24, 120, 720][k]]).filter(([, v], k) => k > 0 && v > 1e-12);
  const noise = Number(values.noise) ** 2;
  return f.teacher_power == null ? "" : norms(...degrees.slice(0, 4), ...(noise ? [["noise", noise]] : []), ["E y²", f.teacher_power + noise]);
}

const norms = (...rows) => `<p class="norm">${rows.map(([name, value]) => `${name} = ${show(value)}`).join(" · ")}</p>`;

function featureSum(f, readoutLaw) {
  const c1 = f.activation[1];
  const top = Math.min(f.expansion.ell, MOST_TERMS);
  const terms = [];
  for (let k = 1; k <= top; k++) {
    const size = c1 ** k * (f.activation[k] ?? 0) * f.eta ** k;
    if (Math.abs(size) < 1e-12) continue;
    const power = k === 1 ? `${mo("(")}${X}${beta}${mo(")")}` : sup(`<mrow>${mo("(")}${X}${beta}${mo(")")}</mrow>`, `<mrow>${mo("∘")}<mn>${k}</mn></mrow>`);
    const readout = k === 1 ? sup(sym("a", mi("a")), mi("⊤")) : `<msup><mrow>${mo("(")}${sup(sym("a", mi("a")), `<mrow>${mo("∘")}<mn>${k}</mn></mrow>`)}${mo(")")}</mrow>${mi("⊤")}</msup>`;
    terms.push({ math: `${size < 0 ? mo("−") : mo("+")}${mn(Math.abs(size))}${power}${readout}`, k, size: termNorm(f, k, Math.abs(size), readoutLaw) });
  }
  if (f.expansion.ell > top) terms.push({ math: mo("+") + mo("…") });
  return terms;
}

// F ≈ F_ℓ where what F_ℓ leaves out is small beside F; otherwise what F is, and by how much F_ℓ misses it.
function featureCard(f, readoutLaw) {
  const whole = math(sym("F", mi("F")), mo("="), mi("σ"), mo("("), X, sup(mi("W"), mi("⊤")), mo(")"));
  if (f.eta === 0) return [math(sym("F", mi("F")), mo("="), F0), "<p>No step was taken.</p>"];
  if (!f.expansion)
    return [whole, f.activation[1] === 0 ? UNKNOWN : f.threshold ? "<p>On a threshold no number of spikes stands for F.</p>" : f.window == null ? "<p>Beyond every window no finite sum of spikes stands for F.</p>" : UNKNOWN];
  const { ell: top, distance, norm } = f.expansion;
  const terms = featureSum(f, readoutLaw);
  const before = f.spectrum?.untrained_edge;
  if (before != null && distance != null && norm > 1.01 * terms.reduce((sum, t) => sum + (t.size ?? Infinity), Math.sqrt(before) + distance)) return [whole, UNKNOWN];
  if (distance == null || !(distance <= SMALL_REST * norm)) {
    const size = distance == null ? "cannot be computed" : `is ${show(distance, 2)} in ‖·‖/√n, beside ${show(norm, 2)} of F`;
    return [whole, `<p>The spikes of window ${top} stand for F as n → ∞. Not at this n: what they leave out along β ${size}.</p>`, norms(["‖F‖/√n", norm], ...terms.filter((t) => t.size != null).map((t) => [`‖degree ${t.k}‖/√n`, t.size]))];
  }
  return [
    math(sym("F", mi("F")), mo("≈"), F0, mo("+"), `<munderover>${mo("∑")}<mrow>${sym("k", mi("k"))}${mo("=")}<mn>1</mn></mrow>${ell}</munderover>`, `<msubsup>${sym("ck", mi("c"))}<mn>1</mn>${mi("k")}</msubsup>`, sym("ck", sub(mi("c"), mi("k"))), sup(eta, mi("k")), sup(`<mrow>${mo("(")}${X}${beta}${mo(")")}</mrow>`, `<mrow>${mo("∘")}${mi("k")}</mrow>`), sup(`<mrow>${mo("(")}${sup(sym("a", mi("a")), `<mrow>${mo("∘")}${mi("k")}</mrow>`)}${mo(")")}</mrow>`, mi("⊤"))),
    ...(terms.length ? terms.map((t, i) => math(i ? "" : mo("=") + F0, t.math) + (t.size == null ? "" : norms([`‖degree ${t.k}‖/√n`, t.size]))) : [math(mo("="), F0)]),
    norms(["‖F‖/√n", norm], ...(before == null ? [] : [["‖F₀‖/√n", Math.sqrt(before)]]), ["what is left out", distance]),
    `<p>What the sum leaves out along β: ${distance < 0.005 * norm ? "less than 1 %" : percent(distance / norm)} of ‖F‖. The bulk moves too.</p>`,
  ];
}

// The bound on c₁²η that keeps descent with the literal gradient stable.
function stability({ value, bound }, values, isotropic) {
  const size = `${sup(sub(sym("ck", mi("c")), "<mn>1</mn>"), "<mn>2</mn>")}${eta}`;
  const law = values.batch === "reused" || !isotropic ? "" : `${frac("<mn>2</mn>", `<mn>1</mn>${mo("+")}${sym("d", mi("d"))}${mo("/")}${sub(mi("n"), "<mtext>step</mtext>")}`)}${mo("=")}`;
  const words = value < bound ? "Stable: what is linear in the residual shrinks from step to step." : "Unstable: the residual grows from step to step.";
  return [math(size, mo("="), mn(value), mo(value < bound ? "&lt;" : "&gt;"), law, mn(bound)), `<p>${words}</p>`].join("");
}

// The learned share of degree k: of one direction that of Hₖ, of several that of all their products of degree k.
function share(directions) {
  const of = (...body) => `${sym("E", mi("E"))}${mo("[")}${body.join("")}${mo("]")}`;
  const part = sub(sym("y", mi("y")), mi("k"));
  return directions > 1 ? [of(fhat, part), of(sup(part, "<mn>2</mn>"))] : [of(fhat, sym("H", sub(mi("H"), mi("k")))), `${cStar(mi("k"))}${mi("k")}${mo("!")}`];
}

const COUNTS = ["no", "one", "two", "three", "four", "five"];
const leave = (count) => `${COUNTS[count] ?? count} ${count < 2 ? "eigenvalue leaves" : "eigenvalues leave"} the bulk`;

// Why fewer spikes are seen than the window has.
function windowNote(f) {
  const { expected, leading } = f.spectrum ?? {};
  if (!expected?.length || f.spectrum.edge == null || leading.length === expected.length) return "";
  const degrees = expected.slice(0, 4).join(", ") + (expected.length > 4 ? ", …" : "");
  return `<p>As n → ∞ it has spikes of degree ${degrees}. At n = ${show(f.n)} and this c ${leave(leading.length)}.</p>`;
}

export function formulas(f, values) {
  const cards = [];
  const card = (title, ...body) => cards.push(`<section><h3>${title}</h3>${body.join("")}</section>`);
  card(
    "The step",
    math(eta, mo("="), sym("c", mi("c")), sup(sym("n", mi("n")), alpha), mo("="), mn(Number(values.constant)), mo("·"), sup(base(f.n), mn(Number(values.exponent))), mo("="), mn(f.eta)),
  );
  if (f.stable) card("Several steps", stability(f.stable, values, !f.no_direction));
  const linear = f.activation[1] !== 0; // without a linear part the gradient has no direction and no window
  if (f.eta === 0) card("The window", "<p>None: no step was taken.</p>");
  else if (!linear) card("The window", "<p>None: the activation has no linear part, c₁ = 0.</p>");
  else if (f.window != null && f.window > 0) {
    const w = f.window;
    card(
      `The window: ${`<span class="sym" data-symbol="ell" tabindex="-1" role="button">ℓ = ${w}</span>`}`,
      math(frac(`${ell}${mo("−")}<mn>1</mn>`, `<mn>2</mn>${ell}`), mo("="), mn((w - 1) / (2 * w)), mo("<"), alpha, mo("<"), mn(w / (2 * w + 2)), mo("="), frac(ell, `<mn>2</mn>${ell}${mo("+")}<mn>2</mn>`)),
      windowNote(f),
    );
  } else card("The window", `<p>${f.threshold ? "α lies on a threshold between two windows." : f.window === 0 ? "ℓ = 0: too small a step for any spike." : `α = ${show(Number(values.exponent))} lies beyond every window.`}</p>`);
  const named = !values.teacher.includes(",");
  if (f.directions > 1) card("The labels", ...mixed(f, values, named));
  else card("The labels", ...teacherSum(f.teacher, Number(values.noise), named).map((line, i) => math(i ? "" : sym("y", mi("y")) + mo("="), line)), `<p class="where">${named ? `${values.teacher.replace(/[^\w]/g, "")}, centred; ` : ""}Hermite polynomials of <span class="sym" data-symbol="z" tabindex="-1" role="button">z = β⋆ᵀx</span></p>`, powers(f, values));
  if (linear && f.no_direction) card("The direction found", `<p>${asSentence(f.no_direction)}</p>`);
  else if (linear) card("The direction found", math(mi("cos"), mo("("), beta, mo(","), betaStar, mo(")"), mo("="), frac(cStar("<mn>1</mn>"), sym("s", mi("s"))), mo("="), frac(mn(f.teacher[1]), mn(f.length)), mo("="), mn(f.overlap)), norms(["s² from c⋆₁²", f.teacher[1] ** 2], ["from d samples of noise", f.length ** 2 - f.teacher[1] ** 2 - (values.gradient === "full" ? f.activation[1] ** 2 : 0)], ...(values.gradient === "full" ? [["from f₀, c₁²", f.activation[1] ** 2]] : [])));
  card("The features", ...featureCard(f, values.readout));
  const norm = (body, low = "") => `${mo("‖")}${body}${low ? sup(mo("‖"), low) : mo("‖")}`;
  card(
    "The fit",
    math(frac("<mn>1</mn>", sym("n", mi("n"))), norm(`${sym("ytilde", `<mover>${mi("y")}${mo("~")}</mover>`)}${mo("−")}${sym("F", mi("F"))}${ahat}`, "<mn>2</mn>"), mo("+"), sym("lambda", mi("λ")), norm(ahat, "<mn>2</mn>"), mo("="), mn(f.train_loss)),
    f.train_mse == null ? "" : norms(["‖ỹ − Fâ‖²/n", f.train_mse], ["λ‖â‖²", f.train_loss - f.train_mse]),
    math(sym("E", mi("E")), sup(`<mrow>${mo("(")}${sym("y", mi("y"))}${mo("−")}${fhat}${mo("(")}${mi("x")}${mo(")")}${mo(")")}</mrow>`, "<mn>2</mn>"), mo("="), mn(f.test_error)),
  );
  const shares = Object.entries(f.fraction ?? {});
  if (shares.length)
    card(
      "Learned",
      math(frac(...share(f.directions)), mo("="), `<mtext>${shares.map(([, v]) => percent(v)).join(", ")}</mtext>`),
      `<p class="where">for k = ${shares.map(([k]) => k).join(", ")}${f.directions > 1 ? "; yₖ is the part of degree k of the labels" : ""}</p>`,
    );
  return cards.join("");
}

// One stop of the Tab key per formula; arrows move between its symbols; hover and focus show the explanation.
export function explain(box, tip) {
  const place = (target) => {
    const words = SYMBOLS[target.dataset.symbol];
    if (!words) return;
    tip.textContent = words;
    tip.hidden = false;
    const at = target.getBoundingClientRect();
    const own = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(at.left + at.width / 2 - own.width / 2, innerWidth - own.width - 8))}px`;
    tip.style.top = `${at.top - own.height - 8 > 0 ? at.top - own.height - 8 : at.bottom + 8}px`;
  };
  const symbol = (event) => event.target.closest?.(".sym");
  box.addEventListener("pointerover", (event) => symbol(event) && place(symbol(event)));
  box.addEventListener("pointerout", () => (tip.hidden = true));
  box.addEventListener("focusin", (event) => symbol(event) && place(symbol(event)));
  box.addEventListener("focusout", () => (tip.hidden = true));
  box.addEventListener("keydown", (event) => {
    const now = symbol(event);
    if (event.key === "Escape") tip.hidden = true;
    if (!now || !["ArrowRight", "ArrowLeft"].includes(event.key)) return;
    const all = [...now.closest("section").querySelectorAll(".sym")];
    const next = all[all.indexOf(now) + (event.key === "ArrowRight" ? 1 : -1)];
    if (next) {
      event.preventDefault();
      now.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    }
  });
}

export function writeFormulas(box, f, values) {
  const text = formulas(f, values);
  if (text === box.written) return;
  const symbols = () => [...box.querySelectorAll(".sym")];
  const held = symbols().indexOf(document.activeElement);
  const name = document.activeElement?.dataset.symbol;
  box.written = text;
  box.innerHTML = text;
  for (const section of box.querySelectorAll("section")) section.querySelector(".sym")?.setAttribute("tabindex", "0");
  if (held < 0) return;
  const same = symbols().filter((symbol) => symbol.dataset.symbol === name); // the keyboard stays on its symbol
  (same.find((symbol) => symbol === symbols()[held]) ?? same[0])?.focus({ preventScroll: true });
}

// What the step does to the test error, in numbers as they are shown: two that read alike are not said to differ.
function moved(before, after, steps) {
  const change = after / before - 1;
  const s = steps > 1 ? "" : "s";
  if (steady(before) === steady(after)) return `leave${s} the test error at <b>${steady(after)}</b>`;
  const size = Math.abs(100 * change).toFixed(Math.abs(change) < 0.095 ? 1 : 0);
  return `${change <= 0 ? "lower" : "raise"}${s} the test error from ${steady(before)} to <b>${steady(after)}</b> (${change <= 0 ? "−" : "+"}${size} %)`;
}

export function sentence(f, curves) {
  if (f.test_error == null || curves?.before?.test_error == null) return "";
  const before = curves.before.test_error;
  const shares = Object.entries(f.fraction ?? {});
  const untrained = shares.map(([k]) => curves.before.fraction[k]);
  const without = f.eta === 0 ? "" : `${f.steps > 1 ? ", without the steps" : ", without the step"} ${listed(untrained.map(percent))}`;
  const learned = `The network has learned ${listed(shares.map(([k, v]) => `${percent(v)} of degree ${k}`))}${without}`;
  const spikes = f.spectrum?.edge == null ? null : f.spectrum.leading?.length;
  const sentences = [
    f.eta === 0 ? `Without a step the test error is <b>${steady(f.test_error)}</b>` : `${f.steps > 1 ? `${COUNTS[f.steps] ?? f.steps} steps` : "A step"} of size <b>η = ${show(f.eta)}</b> ${moved(before, f.test_error, f.steps)}`,
    [shares.length ? learned : "", spikes == null ? "" : leave(spikes)].filter(Boolean).join("; "),
  ];
  const linear = curves.before["linear-ridge"];
  if (linear != null && linear < f.test_error && steady(linear) !== steady(f.test_error)) sentences.push(`Ridge regression on the inputs, with its best penalty, does better: ${steady(linear)}`);
  if (f.status === "inaccurate") sentences.push("These numbers are known to be off by more than 5 %");
  return `${sentences.filter(Boolean).map((s) => s[0].toUpperCase() + s.slice(1)).join(". ")}.`;
}
