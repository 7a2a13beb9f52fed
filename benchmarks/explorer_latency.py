"""Time from a slider to the new picture, in a real browser: python benchmarks/explorer_latency.py

Fifty moves of seven sliders, one after the other. The clock starts at the slider's input event and stops when both answers
of the server for the new problem are drawn (errors, spectrum, learned shares) and the page has made its frame.
Needs chromium or Chrome on the PATH.
"""

import random
import shutil
import statistics
import subprocess
import sys
import tempfile

from playwright.sync_api import sync_playwright

MOVES = 50
PORT = 8763
SLIDERS = ("ridge", "exponent", "constant", "noise", "phi", "psi", "n")
START = "from onestride.cli import main; main()"
MOVE = """
([name, share]) => new Promise((done) => {
  const range = document.getElementById(`control-${name}`);
  const root = document.documentElement;
  const [low, high] = [Number(range.min), Number(range.max)];
  const seen = new MutationObserver(() => {
    const { asked, curves, here } = root.dataset;
    if (here !== asked || (curves !== asked && name !== "exponent")) return;  // the curves do not depend on the exponent
    seen.disconnect();
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - start)));  // after the next frame is made
  });
  seen.observe(root, { attributes: true });
  range.value = low + share * (high - low);
  const start = performance.now();
  range.dispatchEvent(new Event("input", { bubbles: true }));
})
"""


def find_browser() -> str:
    names = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    return found or sys.exit("no chromium or Chrome on the PATH")


def measure(address: str) -> dict[str, list[float]]:
    """Milliseconds of every move, by slider."""
    rng = random.Random(0)
    times: dict[str, list[float]] = {name: [] for name in SLIDERS}
    with sync_playwright() as playwright:
        options = ["--headless", "--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=find_browser(), args=options)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(address)
        page.locator("#quality[data-quality=full]").wait_for()
        for k in range(MOVES):
            name = SLIDERS[k % len(SLIDERS)]
            times[name].append(page.evaluate(MOVE, [name, rng.uniform(0.1, 0.75)]))
            page.locator("#quality[data-quality=full]").wait_for()  # each move begins at rest
        browser.close()
    return times


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", START, "explore", "--no-browser", "--port", str(PORT), "--store", folder]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            server.stdout.readline()
            times = measure(f"http://127.0.0.1:{PORT}/")
        finally:
            server.terminate()
            server.wait(10)
    everything = sorted(t for own in times.values() for t in own)
    for name, own in times.items():
        print(f"{name:9s} median {statistics.median(own):6.1f} ms, largest {max(own):6.1f} ms")
    p95 = everything[round(0.95 * (len(everything) - 1))]
    print(f"{len(everything)} moves: median {statistics.median(everything):.1f} ms, 95th percentile {p95:.1f} ms")


if __name__ == "__main__":
    main()
