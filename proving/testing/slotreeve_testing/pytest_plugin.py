"""Fixtures for pytest. They are not loaded by themselves.

Write ``pytest_plugins = ["slotreeve_testing.pytest_plugin"]`` into the conftest.py at the top of your tests, or call
``pytest -p slotreeve_testing.pytest_plugin``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from slotreeve_testing.in_thread import RegistryInThread, registry_in_thread


@pytest.fixture
def slotreeve_registry_options() -> dict[str, Any]:
    """Options of ``slotreeve_registry``, the fields of :class:`~slotreeve_testing.life.RegistryOptions`. Overwrite
    it in a conftest.py or a test module for others than the defaults."""
    return {}


@pytest.fixture
def slotreeve_registry(slotreeve_registry_options: dict[str, Any]) -> Iterator[RegistryInThread]:
    """A whole registry in a thread, new for each test: :func:`~slotreeve_testing.in_thread.registry_in_thread`. A test
    with an event loop of its own may use it as well, or ``async with registry()``."""
    with registry_in_thread(**slotreeve_registry_options) as running:
        yield running
