// A button that copies a block of code, without prompts; nothing is fetched.
document.addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll("div.highlight-python pre, div.highlight-sh pre, div.highlight-bibtex pre")) {
    const button = document.createElement("button");
    button.className = "copy";
    button.type = "button";
    button.textContent = "copy";
    button.setAttribute("aria-label", "copy this code");
    button.addEventListener("click", async () => {
      const text = [...block.childNodes].filter((node) => node !== button).map((node) => node.textContent).join("");
      await navigator.clipboard.writeText(text.replace(/^(>>>|\.\.\.) /gm, "").trimEnd() + "\n");
      button.textContent = "copied";
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    });
    block.append(button);
  }
});
