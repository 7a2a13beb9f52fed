"""An experiment from Python
============================

The twenty experiments of ``onestride experiment`` are functions: settings in, an outcome with verdict, numbers and figure out.
Here is one at its small size.
"""

# %%
# ``Settings(size="standard")`` is what the experiment's own page shows.
from onestride.experiments.catalogue import run_experiment
from onestride.experiments.outcome import Settings
from onestride.plot import draw

outcome = run_experiment("label-noise", Settings(size="small"))
print(outcome.question)
print("Verdict:", outcome.verdict)
print(outcome.finding)

# %%
# The figure is data until it is drawn; ``outcome.panels`` and ``outcome.rows`` hold every number in it.
figure = draw(outcome.panels, columns=outcome.columns)
print(len(outcome.rows), "rows; the first:", outcome.rows[0])
