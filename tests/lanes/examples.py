"""How many examples a property is tried with. The soak tries more: ``SLOTREEVE_EXAMPLES=500``."""

from __future__ import annotations

import os

from hypothesis import settings

EXAMPLES = int(os.environ.get("SLOTREEVE_EXAMPLES", "25"))


def load_profile() -> None:
    """Make this the number for every property that does not say its own. An example has no bound of time: on a starved
    machine a quick one is slow."""
    settings.register_profile("slotreeve", deadline=None, max_examples=EXAMPLES)
    settings.load_profile("slotreeve")
