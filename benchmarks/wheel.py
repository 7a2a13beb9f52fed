"""The wheel alone: what works with the base dependencies, and what each missing extra says.

    make wheel        builds it, installs it into an empty environment and runs this file there

Prints sizes, versions, times and every sentence; ends with 1 when something that should work does not.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SWEEP = "[problem]\nn = 50\nd = 25\nN = 40\nseeds = 2\n"  # a file that every command finds in its folder
WORKS = [
    "import onestride as one; p = one.Problem(n=200, d=100, N=150); print(one.predict(p), one.simulate(p, seeds=2))",
    ["predict", "--n", "200", "--d", "100", "--N", "150"],
    ["simulate", "--n", "200", "--d", "100", "--N", "150", "--seeds", "2"],
    ["compare", "--n", "200", "--d", "100", "--N", "150", "--seeds", "2", "--json"],
    ["plan", "--n", "200", "--d", "100", "--N", "150"],
    ["functions"],
    ["experiment", "list"],
    ["sweep", "run", "sweep.toml", "--store", "results", "--workers", "1"],
]
EXTRAS = {
    "plot": ("matplotlib", "import onestride as one; one.plot.staircase(one.Problem(n=50, d=25, N=40), [0, 0.2])"),
    "export": ("pandas", "import onestride as one; one.predict(one.Problem(n=400, d=200, N=300)).to_pandas()"),
    "estimator": ("sklearn", "import onestride as one; one.OneStepRegressor()"),
    "torch": ("torch", "import onestride as one; one.simulate(one.Problem(n=50, d=25, N=40), 1, device='torch')"),
    "report": ("matplotlib", ["experiment", "errors", "--size", "small"]),
    "explore": ("starlette", ["explore", "--no-browser"]),
    "cluster": ("distributed", ["sweep", "run", "sweep.toml", "--store", "results", "--dask", "local"]),
}


def run(work: list[str] | str) -> subprocess.CompletedProcess[str]:
    """A command of onestride, or Python code."""
    start = [sys.executable, "-c", work] if isinstance(work, str) else [sys.executable, "-m", "onestride", *work]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sweep.toml").write_text(SWEEP, encoding="utf-8")
        return subprocess.run(start, capture_output=True, text=True, cwd=folder, check=False)


def main() -> int:
    print(f"onestride {importlib.metadata.version('onestride')}, Python {sys.version.split()[0]}")
    bad = 0
    for work in WORKS:
        started = time.perf_counter()
        done = run(work)
        bad += done.returncode != 0
        took = f"{'ok' if done.returncode == 0 else 'FAILED'} in {time.perf_counter() - started:.1f} s"
        print(f"{took}: {work if isinstance(work, str) else ' '.join(['onestride', *work])}")
        if done.returncode:
            print(done.stderr[-500:])
    for extra, (library, work) in EXTRAS.items():
        if importlib.util.find_spec(library):
            print(f"{extra}: {library} is here")
            continue
        told = run(work).stderr.strip().splitlines()[-1]
        good = f"pip install 'onestride[{extra}]'" in told
        bad += not good
        print(f"{'ok' if good else 'FAILED'} {extra}: {told}")
    heavy = [name for name in ("matplotlib", "pandas", "sklearn", "torch") if importlib.util.find_spec(name)]
    print(f"optional libraries here: {', '.join(heavy) or 'none'}; installed in {Path(sys.prefix).name}")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
