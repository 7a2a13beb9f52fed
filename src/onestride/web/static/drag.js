// Numbers that are chosen in the figures: the axis' own value by a drag, α and λ by a click on the map.

export function dragValue(svg, controls) {
  const move = (event) => {
    const px = event.clientX - svg.getBoundingClientRect().left;
    const at = svg.scale?.fromX(px);
    const { axis } = svg; // that is drawn: another may have been asked for
    if (at != null) controls.set(axis, controls.rounded(axis, at));
  };
  svg.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "touch") return; // a touch scrolls the page
    svg.setPointerCapture(event.pointerId);
    move(event);
    svg.addEventListener("pointermove", move);
  });
  svg.addEventListener("pointerup", () => svg.removeEventListener("pointermove", move));
  svg.addEventListener("pointercancel", () => svg.removeEventListener("pointermove", move));
}

export function pickOnMap(svg, controls, ready) {
  svg.addEventListener("click", (event) => {
    if (!svg.scale || !ready() || event.altKey) return; // Alt and a drag zoom
    const box = svg.getBoundingClientRect();
    const { fromX, fromY } = svg.scale;
    controls.set("exponent", controls.rounded("exponent", fromX(event.clientX - box.left)));
    controls.set("ridge", controls.rounded("ridge", 10 ** fromY(event.clientY - box.top)));
  });
}
