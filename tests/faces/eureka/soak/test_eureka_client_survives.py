"""The client of Eureka under deaths."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.faces.eureka.real.test_eureka_clients import PROGRAM
from tests.faces.programs import program
from tests.faces.providers_and_followers import STEADY, survive_whoever_is_killed

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


def test_the_client_survives_whoever_is_killed(tmp_path: Path) -> None:
    program("haproxy")
    asyncio.run(survive_whoever_is_killed(tmp_path, "eureka", PROGRAM, behind_haproxy=False))
    assert (tmp_path / f"{STEADY}.log").read_text().count("register successfully!") == 1, "it renewed"
