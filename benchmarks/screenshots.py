"""Pictures of the explorer for README and docs: python benchmarks/screenshots.py [FOLDER]

The page of the default problem after a simulation of eight seeds, in light and dark; into docs/images unless a folder is given.
Needs chromium or Chrome on the PATH.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from explorer_latency import START, find_browser
from playwright.sync_api import sync_playwright

PORT = 8764
SIZE = {"width": 1920, "height": 1080}
SEEDS = "8"
MINUTES = 60_000


def take(address: str, folder: Path) -> None:
    with sync_playwright() as playwright:
        options = ["--headless", "--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=find_browser(), args=options)
        for scheme, name in (("light", "explorer.png"), ("dark", "explorer-dark.png")):
            page = browser.new_page(viewport=SIZE, color_scheme=scheme)
            page.set_default_timeout(10 * MINUTES)
            page.add_init_script("localStorage.setItem('visited', 'yes')")
            page.goto(address)
            page.locator("#quality[data-settled=true]").wait_for()
            if scheme == "light":
                page.locator("#seeds").fill(SEEDS)
                page.locator("#run").click()
            page.locator("#legend-test_error", has_text=f"simulation, {SEEDS} seeds").wait_for()
            page.locator("#map:not(.stale) .best").wait_for(state="attached")
            page.wait_for_function("() => !document.querySelector('#job-state').textContent.includes('left')")
            page.screenshot(path=folder / name)
        browser.close()


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent / "docs" / "images")
    with tempfile.TemporaryDirectory() as store:
        command = [sys.executable, "-c", START, "explore", "--no-browser", "--port", str(PORT), "--store", store]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            server.stdout.readline()
            take(f"http://127.0.0.1:{PORT}/", folder)
        finally:
            server.terminate()
            server.wait(10)


if __name__ == "__main__":
    main()
