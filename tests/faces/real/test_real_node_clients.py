"""A client of Consul for Node discovers through two gateways behind HAProxy. Those of Eureka are in the soak."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faces.node_clients import follow_with_node

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


def test_a_client_for_node_follows_every_change_whoever_is_killed(tmp_path: Path) -> None:
    follow_with_node(tmp_path, "consul")
