"""The time spans of the console, on a simulated cluster that runs for longer than they are."""

from __future__ import annotations

import asyncio
from pathlib import Path

from slotreeve_protocol.instance import Instance

from tests.faces.console.console_on_trial import ConsoleOnTrial, play

WEB = "com.example.Web"


def test_what_is_older_than_a_time_span_is_not_told_in_it(tmp_path: Path) -> None:
    async def story(trial: ConsoleOnTrial) -> None:
        await trial.gateway.registry.register(WEB, Instance("10.0.0.1", 80, id="web-1"), 600)
        await trial.gateway.registry.deregister(WEB, "web-1")
        trial.cluster.kill("data-1")
        await asyncio.sleep(60)
        for path in ("/ui/", "/ui/history?span=30m", "/ui/history"):
            assert "data server data-1 left" in await trial.words(path), path
        assert f"{WEB} 1 instance ended" in await trial.words("/ui/")
        await asyncio.sleep(1800)
        now = await trial.words("/ui/")
        assert "No service lost an instance in the last 30 minutes." in now
        assert (
            "data server data-1 left"
            not in now[now.index("What changed lately") : now.index("Services and subscribers")]
        )
        assert "data server data-1 left" not in await trial.words("/ui/history?span=30m")
        assert "data server data-1 left" in await trial.words("/ui/history?span=1h")

    play(story, settings={"history.directory": str(tmp_path)})
