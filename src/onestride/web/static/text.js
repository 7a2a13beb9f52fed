// Numbers and elements.

export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") node.textContent = value;
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

export const finite = (values) => values.filter((v) => v != null && Number.isFinite(v));

// 0.1234, 12.3, 1,234: three digits where that is enough, never scientific for everyday sizes
export function show(x, digits = 3) {
  if (x == null || !Number.isFinite(x)) return "–";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1e7 || size < 1e-4) {
    const [mantissa, exponent] = x.toExponential(Math.max(digits - 2, 0)).split("e");
    const power = `10${superscript(Number(exponent))}`;
    return Number(mantissa) === 1 ? power : `${minus(String(Number(mantissa)))}·${power}`;
  }
  if (size >= 1000) return minus(Math.round(x).toLocaleString("en-GB"));
  return minus(String(Number(x.toPrecision(digits))));
}

// Three digits with their zeros, for sentences: 2.20, not 2.2
export const steady = (x) => (x != null && Math.abs(x) >= 0.1 && Math.abs(x) < 1000 ? minus(x.toPrecision(3)) : show(x));

export const minus = (text) => text.replace("-", "−");

export function superscript(k) {
  return [...String(k)].map((c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c])).join("");
}

export function logName(t) {
  const k = Math.log10(t);
  return Number.isInteger(Math.round(k * 1e9) / 1e9) && (t >= 1000 || t < 0.01) ? `10${superscript(Math.round(k))}` : String(Number(t.toPrecision(2)));
}

export const percent = (x) => (x == null ? "–" : `${minus(String(Math.round(100 * x)))} %`);

export const listed = (words) => words.join(", ").replace(/, ([^,]*)$/, " and $1");

// A sentence begins with a capital, unless it begins with a symbol: n is not N.
const SYMBOL = /^(?!a\s)(\p{L}|phi|psi)(?!\p{L})/u;
export const asSentence = (words) => (words ? `${SYMBOL.test(words) ? words[0] : words[0].toUpperCase()}${words.slice(1)}.` : "");

// What was typed, with a fraction such as 1/3 as a decimal number; what is no number stays as it is.
export function plainNumber(text) {
  const typed = text.trim().replace("−", "-");
  const [, top, low] = typed.match(/^([\d.eE+-]+)\s*\/\s*([\d.eE+-]+)$/) ?? [];
  const ratio = Number(top) / Number(low);
  return Number.isFinite(ratio) ? String(Number(ratio.toPrecision(12))) : typed;
}

// Another address for what is shown; a page that is a file may have to keep its own.
export function rewrite(search, hash, way = "replaceState") {
  const address = `${location.pathname}${search}${hash}`;
  if (way === "replaceState" && address === location.pathname + location.search + location.hash) return;
  try {
    history[way](null, "", address);
  } catch (error) {
    if (error.name !== "SecurityError") throw error;
  }
}

export function toast(words) {
  const box = document.getElementById("toast");
  box.textContent = words;
  box.hidden = false;
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => (box.hidden = true), 3000);
}
