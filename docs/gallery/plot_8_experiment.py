"""An experiment from Python
============================

The experiments of ``onestride experiment`` from Python: settings in, an outcome with judgement, numbers and figure out.
Here is one at its small size.
"""

# %%
# ``Settings(size="standard")`` is what the experiment's own page shows.
from onestride.experiments.catalogue import run_experiment
from onestride.experiments.outcome import Settings
from onestride.plot import draw

outcome = run_experiment("label-noise", Settings(size="small"))
print(outcome.question)
print("Verdict:", outcome.judgement.words)
print(outcome.judgement.finding)

# %%
# The figure is data until it is drawn; ``figure.panels`` and ``judgement.rows`` hold every number in it.
figure = draw(outcome.figure.panels, columns=outcome.figure.columns)
rows = outcome.judgement.rows
print(len(rows), "rows; the first:", rows[0])
