// Looking closer at a part of a figure: buttons in its corner, Ctrl and the wheel (or two fingers), or Alt and a drag; a double
// click shows all of it again.

import { element } from "./text.js";

const CLOSER = 0.6;

// The part of an axis around one point of it.
function part(axis, at, factor) {
  const f = axis.log ? Math.log10 : (v) => v;
  const back = axis.log ? (v) => 10 ** v : (v) => v;
  return [axis.low, axis.high].map((end) => back(f(at) + factor * (f(end) - f(at))));
}

export function zoomTo(svg, x, y) {
  svg.zoom = { x, y, meaning: svg.scale.meaning };
  svg.repaint?.();
}

export function reset(svg) {
  svg.zoom = null;
  svg.repaint?.();
}

function around(svg, [atX, atY], factor) {
  const { x, y } = svg.scale;
  zoomTo(svg, part(x, atX, factor), part(y, atY, factor));
}

// Where a button looks closer: at the problem itself, or in the middle.
function centre(svg) {
  const { inner, fromX, fromY } = svg.scale;
  const dot = svg.querySelector(".here-dot");
  const [px, py] = dot ? ["cx", "cy"].map((name) => Number(dot.getAttribute(name))) : [inner.x + inner.w / 2, inner.y + inner.h / 2];
  return [fromX(px), fromY(py)];
}

export function addZoom(svg, corner) {
  const words = { closer: ["+", "Look closer"], all: ["⟲", "Show all of it"] };
  for (const [kind, [text, long]] of Object.entries(words)) {
    const button = element("button", { type: "button", "data-zoom": kind, text, title: long, "aria-label": `${long}, figure ${svg.id}` });
    button.addEventListener("click", () => svg.scale && (kind === "all" ? reset(svg) : around(svg, centre(svg), CLOSER)));
    corner.prepend(button);
  }
  const place = (event) => {
    const box = svg.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  svg.addEventListener("dblclick", () => svg.zoom && reset(svg));
  svg.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey || !svg.scale) return; // a plain wheel scrolls the page
      event.preventDefault();
      const [px, py] = place(event);
      around(svg, [svg.scale.fromX(px), svg.scale.fromY(py)], Math.exp(Math.min(100, Math.max(-100, event.deltaY)) / 200));
    },
    { passive: false },
  );
  svg.addEventListener(
    "pointerdown",
    (event) => {
      if (!event.altKey || !svg.scale || event.pointerType === "touch") return;
      event.stopImmediatePropagation(); // this drag moves no number
      event.preventDefault();
      frame(svg, place(event), place);
    },
    { capture: true },
  );
}

// A rectangle that follows the pointer, and becomes the figure.
function frame(svg, from, place) {
  const box = svg.appendChild(document.createElementNS(svg.namespaceURI, "rect"));
  box.setAttribute("class", "frame");
  const move = (event) => {
    const to = place(event);
    const [left, top] = [0, 1].map((k) => Math.min(from[k], to[k]));
    const [width, height] = [0, 1].map((k) => Math.abs(from[k] - to[k]));
    for (const [name, value] of Object.entries({ x: left, y: top, width, height })) box.setAttribute(name, value);
  };
  const end = (event) => {
    removeEventListener("pointermove", move);
    box.remove();
    const to = place(event);
    if (Math.abs(to[0] - from[0]) < 8 || Math.abs(to[1] - from[1]) < 8) return;
    const { fromX, fromY } = svg.scale;
    zoomTo(svg, [from[0], to[0]].sort((a, b) => a - b).map(fromX), [from[1], to[1]].sort((a, b) => b - a).map(fromY));
  };
  addEventListener("pointermove", move);
  addEventListener("pointerup", end, { once: true });
}
