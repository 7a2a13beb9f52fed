"""erf(z + ½): an activation with c₁, c₂, c₃, c₄ ≠ 0 whose third spike can be seen on a small machine.

ReLU, softplus, GELU and SiLU have c₃ = 0, tanh and erf have c₂ = 0; ELU has all of them, but so small that its third
spike needs n above 2·10⁴, and the features of a cubic polynomial have a bulk that swallows it. Importing this module registers the name.
"""

from __future__ import annotations

import numpy as np
from scipy.special import erf

from onestride.functions import register

SHIFT = 0.5
SHIFTED_ERF = register(
    "shifted_erf", lambda z: erf(z + SHIFT), lambda z: 2 / np.sqrt(np.pi) * np.exp(-((z + SHIFT) ** 2))
).name
