"""The registry behind the gateways of these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from slotreeve_harness.processes import DevServer


@pytest.fixture(scope="module")
def dev() -> Iterator[DevServer]:
    with DevServer() as server:
        yield server
