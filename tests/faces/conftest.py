"""Fixtures for the tests of faces."""

from __future__ import annotations

import pytest

from tests.faces.stage import OnStage, run_story


@pytest.fixture
def on_stage() -> OnStage:
    """Runs a story with a registry, a gateway and clients of both (``tests/faces/stage.py``)::

    def test_something(on_stage: OnStage) -> None:
        async def story(stage: Stage) -> None:
            await stage.sdk.register("com.example.S", Instance("10.0.0.1", 80)).acknowledged()
            assert (await stage.http.get("/prometheus/targets")).status_code == 200

        on_stage(story, faces="prometheus")
    """
    return run_story
