"""The explorer: a local page that draws theory while a slider moves and simulates in the background."""

import onestride.experiments.shifted_erf  # noqa: F401  (registers the activation of three experiments, in every process)
