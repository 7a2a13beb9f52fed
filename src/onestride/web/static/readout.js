// The values under the pointer, and each figure as a file: PNG, SVG or CSV.

import { element, show } from "./text.js";
import { addZoom } from "./zoom.js";

// ------------------------------------------------------------------ hover

function nearest(series, x, far) {
  let best = -1;
  series.x.forEach((v, i) => {
    if (series.y[i] != null && (best < 0 || Math.abs(far(v) - far(x)) < Math.abs(far(series.x[best]) - far(x)))) best = i;
  });
  return best;
}

function valueAt({ kind, x, y }, at) {
  if (kind !== "line") return null;
  const i = x.findIndex((v, k) => k + 1 < x.length && v <= at && at <= x[k + 1]);
  if (i < 0 || y[i] == null || y[i + 1] == null) return null;
  return y[i] + ((at - x[i]) / (x[i + 1] - x[i])) * (y[i + 1] - y[i]);
}

// Every line at this position, the points and spikes beside it, the nearest of a cloud of dots.
function valuesAt(svg, px, py, at) {
  const { toX, toY, x } = svg.scale;
  const far = x.log ? Math.log10 : (v) => v;
  const told = svg.told ?? [];
  const lines = told.map((s) => [s.label, valueAt(s, at)]).filter(([, v]) => v != null);
  for (const s of told) {
    const i = s.kind === "points" || s.kind === "spikes" ? nearest(s, at, far) : -1;
    if (i >= 0 && Math.abs(toX(s.x[i]) - px) < 12) lines.push(s.kind === "spikes" ? [s.names[i] ? `spike ${s.names[i]}` : "spike", s.x[i]] : [s.label, s.y[i], s.error?.[i]]);
    if (s.kind !== "dots") continue;
    const apart = s.x.map((v, k) => Math.hypot(toX(v) - px, toY(s.y[k]) - py));
    const k = apart.indexOf(Math.min(...apart));
    if (apart[k] < 10) lines.push([s.label, `${show(s.x[k])}, ${show(s.y[k])}`]);
  }
  return lines;
}

export function readOut(svg, tip) {
  let last = null; // where the pointer rests
  const leave = () => {
    last = null;
    tip.hidden = true;
    svg.querySelector(".cross")?.remove();
  };
  const read = (event) => {
    if (!svg.scale || svg.classList.contains("empty") || event.buttons || event.pointerType === "touch") return leave();
    const { inner, x, fromX } = svg.scale;
    const box = svg.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    if (px < inner.x || px > inner.x + inner.w || py < inner.y || py > inner.y + inner.h) return leave();
    const at = fromX(px);
    const lines = svg.reads ? svg.reads(px, py) : valuesAt(svg, px, py, at);
    if (!lines.length) return leave();
    last = event;
    const cross = svg.querySelector(".cross") ?? svg.appendChild(document.createElementNS(svg.namespaceURI, "line"));
    for (const [name, value] of Object.entries({ class: "cross", x1: px, x2: px, y1: inner.y, y2: inner.y + inner.h })) cross.setAttribute(name, value);
    const rows = lines.map(([label, v, e]) => element("span", {}, `${label}: `, element("b", { text: typeof v === "string" ? v : show(v, 4) + (e == null ? "" : ` ± ${show(e, 2)}`) })));
    tip.replaceChildren(...(svg.reads ? [] : [element("i", { text: `${x.label.split(" ")[0].replace(/[\^_]/g, "")} = ${show(at)}` })]), ...rows);
    tip.hidden = false;
    const own = tip.getBoundingClientRect();
    tip.style.left = `${event.clientX + 14 + own.width > innerWidth ? event.clientX - own.width - 14 : event.clientX + 14}px`;
    tip.style.top = `${Math.max(8, event.clientY - own.height - 10)}px`;
  };
  svg.reread = () => last && read(last); // the figure has other numbers now
  svg.addEventListener("pointermove", read);
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("pointerdown", leave);
}

// ------------------------------------------------------------------ files

const COPIED = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity", "font-family", "font-size", "font-style", "font-weight", "paint-order"];

// The figure with its styles written out, its title and its legend on top.
function standalone(svg, title, list) {
  const copy = svg.cloneNode(true);
  copy.querySelector(".cross")?.remove();
  const [width, height, head] = [svg.clientWidth, svg.clientHeight, 44];
  const style = (from, to) => {
    const computed = getComputedStyle(from);
    for (const name of COPIED) to.style.setProperty(name, computed.getPropertyValue(name));
    [...from.children].forEach((child, i) => to.children[i] && style(child, to.children[i]));
  };
  svg.querySelector(".cross")?.remove();
  style(svg, copy);
  const root = document.createElementNS(svg.namespaceURI, "svg");
  const make = (tag, attributes, text) => {
    const made = document.createElementNS(svg.namespaceURI, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text != null) made.textContent = text;
    return root.appendChild(made);
  };
  const write = (at, font, text) => {
    const made = make("text", at, text);
    Object.assign(made.style, { font, fill: colours.color }); // as an attribute the content policy would refuse it
  };
  for (const [name, value] of Object.entries({ xmlns: svg.namespaceURI, width, height: height + head, viewBox: `0 0 ${width} ${height + head}` })) root.setAttribute(name, value);
  const colours = getComputedStyle(svg.parentElement);
  make("rect", { width, height: height + head, fill: colours.backgroundColor });
  write({ x: 14, y: 18 }, "600 16px serif", title);
  let x = 14;
  for (const item of [...list.children].filter((li) => !li.querySelector("[aria-pressed=false]"))) {
    const key = root.appendChild(item.querySelector("svg").cloneNode(true));
    style(item.querySelector("svg"), key);
    key.setAttribute("x", x);
    key.setAttribute("y", 26);
    write({ x: x + 31, y: 36 }, "12px sans-serif", item.textContent);
    x += 45 + 6.4 * item.textContent.length;
  }
  const body = make("g", { transform: `translate(0 ${head})` });
  body.append(...copy.children);
  return { text: new XMLSerializer().serializeToString(root), width, height: height + head };
}

export function asCsv(told) {
  const rows = told.flatMap((s) => s.x.map((x, i) => [s.label, x, s.y[i] ?? "", s.error?.[i] ?? ""]));
  const cell = (value) => (/[",\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : value);
  return ["series,x,y,error", ...rows.map((row) => row.map(cell).join(","))].join("\n") + "\n";
}

function save(name, href) {
  const link = element("a", { href, download: name });
  document.body.append(link);
  link.click();
  link.remove();
}

const asUrl = (media, text) => `data:${media};charset=utf-8,${encodeURIComponent(text)}`;

const WRITE = {
  SVG: (svg, title, list, name) => save(`${name}.svg`, asUrl("image/svg+xml", standalone(svg, title, list).text)),
  CSV: (svg, title, list, name) => save(`${name}.csv`, asUrl("text/csv", asCsv(svg.told ?? []))),
  async PNG(svg, title, list, name) {
    const { text, width, height } = standalone(svg, title, list);
    const image = new Image();
    image.src = asUrl("image/svg+xml", text);
    await image.decode();
    const canvas = element("canvas", { width: 2 * width, height: 2 * height });
    const pen = canvas.getContext("2d");
    pen.scale(2, 2);
    pen.drawImage(image, 0, 0);
    save(`${name}.png`, canvas.toDataURL("image/png"));
  },
};

// A small menu in the corner of every figure, beside the buttons that zoom.
export function addFiles(figure) {
  const svg = figure.querySelector("svg[role=img]");
  const title = figure.querySelector("h2");
  const list = figure.querySelector(".legend");
  const menu = element("details", { class: "menu files" }, element("summary", { text: "⤓", "aria-label": `Save the figure ${svg.id}`, title: "Save this figure" }));
  const group = element("div", { role: "group" });
  for (const kind of Object.keys(WRITE)) {
    const button = element("button", { type: "button", text: kind });
    button.addEventListener("click", () => WRITE[kind](svg, figure.dataset.title ?? title.textContent, list, `onestride-${svg.id}`));
    group.append(button);
  }
  menu.append(group);
  const corner = element("div", { class: "corner" }, menu);
  figure.querySelector("figcaption").append(corner);
  addZoom(svg, corner);
}
