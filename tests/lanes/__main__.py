"""Prints what pytest is given for a lane: ``python -m tests.lanes check``, or ``test --spark``."""

from __future__ import annotations

import sys

from tests.lanes.lanes import Lane, arguments

print(*arguments(Lane(sys.argv[1]), spark="--spark" in sys.argv[2:]))
