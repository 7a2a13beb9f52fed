"""The old name of `onestride.agreement`, whose function `compare` is `onestride.compare`."""

from onestride.agreement import *  # noqa: F403
