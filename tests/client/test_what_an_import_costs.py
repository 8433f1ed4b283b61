"""What ``import slotreeve_client`` brings with it: everybody who uses the client waits for that."""

from __future__ import annotations

import subprocess
import sys

import pytest
import slotreeve
import slotreeve_client

DEAR = {"pydantic", "pluggy", "zmq", "importlib.metadata", "slotreeve_servers", "slotreeve_transport_zmq"}
"""What only a program needs that connects, and what only servers need."""


def test_an_import_of_the_client_brings_nothing_dear() -> None:
    shown = subprocess.run(
        [sys.executable, "-c", "import slotreeve_client, sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    brought = set(shown.stdout.split())
    assert "slotreeve_client.core" in brought
    assert not DEAR & brought


@pytest.mark.parametrize("package", [slotreeve, slotreeve_client])
def test_every_public_name_is_there_and_an_unknown_one_is_refused_by_its_package(package: object) -> None:
    for name in package.__all__:  # type: ignore[attr-defined]
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'Opions'"):
        package.Opions  # type: ignore[attr-defined]  # noqa: B018
