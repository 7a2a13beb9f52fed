// The formulas stand in a drawer at the right: beside the figures where there is room, over them where there is not.

const KEY = "formulas";

export class Drawer {
  constructor(button, box, close) {
    Object.assign(this, { button, box });
    button.addEventListener("click", () => this.set(box.hidden));
    const shut = () => {
      this.set(false);
      button.focus();
    };
    close.addEventListener("click", shut);
    box.addEventListener("keydown", (event) => event.key === "Escape" && shut());
    this.set(remembered());
  }

  set(open) {
    this.box.hidden = !open;
    this.button.setAttribute("aria-expanded", String(open));
    this.button.setAttribute("aria-pressed", String(open));
    document.documentElement.toggleAttribute("data-formulas", open);
    try {
      localStorage.setItem(KEY, open ? "open" : "");
    } catch {
      // then the drawer is closed at the next visit
    }
  }
}

function remembered() {
  try {
    return localStorage.getItem(KEY) === "open";
  } catch {
    return false;
  }
}
