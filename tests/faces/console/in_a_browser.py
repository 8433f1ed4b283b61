"""A cluster of real processes whose console a browser shows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType

from slotreeve_client import Client
from slotreeve_client.tools import open_client, open_transport
from slotreeve_harness.processes import ClusterSize, LocalCluster
from slotreeve_protocol.instance import Instance

from tests.faces.console.chromium import Chromium

SERVICE = "com.example.Greeter"
SLOTS = 256


class Setting:
    """A running cluster with its console, and a client that has registered an instance."""

    def __init__(self, cluster: LocalCluster, client: Client) -> None:
        self.cluster, self.client = cluster, client

    @property
    def url(self) -> str:
        return f"http://{self.cluster.gateway_addresses[0]}/ui/"


@asynccontextmanager
async def running(directory: Path, settings: Mapping[str, object]) -> AsyncIterator[Setting]:
    size = ClusterSize(meta=3, data=3, session=2, gateway=1)
    transport = open_transport()
    try:
        with LocalCluster(directory, size, {"cluster.slots": SLOTS, **settings}) as cluster:
            await cluster.ready(transport, 60)
            async with open_client(cluster.session_addresses, cluster.name) as client:
                await client.register(SERVICE, Instance("10.0.0.1", 8080, tags=("blue",))).acknowledged()
                yield Setting(cluster, client)
    finally:
        await transport.close()


def play(
    story: Callable[[Setting], Awaitable[None]], directory: Path, settings: Mapping[str, object] = MappingProxyType({})
) -> None:
    async def scene() -> None:
        async with asyncio.timeout(110), running(directory, settings) as setting:
            await story(setting)

    asyncio.run(scene())


async def until(browser: Chromium, script: str, seconds: float = 30) -> None:
    """Wait until an expression is true in the page. The client of this process goes on meanwhile."""
    await asyncio.to_thread(browser.until, script, seconds)


def says(text: str, where: str = "main") -> str:
    return f"document.querySelector({json.dumps(where)})?.innerText.includes({json.dumps(text)})"


def is_drawn_whole(browser: Chromium) -> bool:
    """Whether the slot map, of which parts were drawn anew, is as it is where all of it is drawn."""
    picture = "document.getElementById('map').toDataURL()"
    return bool(browser.evaluate(f"{picture} === (document.dispatchEvent(new CustomEvent('themechange')), {picture})"))


def pictures(browser: Chromium, folder: Path, name: str) -> None:
    """The page on a light and on a dark screen. Those whose names begin with ``console-`` are in the documentation."""
    for colours in ("dark", "light"):
        browser.prefer(colours)
        browser.screenshot(folder / f"{name}-{colours}.png")
