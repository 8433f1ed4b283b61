"""How soon a browser has painted what somebody did, in milliseconds."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from slotreeve.model.nodes import Role
from slotreeve_client import Client
from slotreeve_client.tools import open_client, open_transport
from slotreeve_harness.processes import ClusterSize, LocalCluster
from slotreeve_protocol.instance import Instance

from tests.faces.console.chromium import Chromium

READY_SECONDS, FILL_SECONDS, SETTLE_SECONDS = 180.0, 300.0, 120.0
AT_ONCE = 1_000
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
"""Since whoever looks has begun to go to the page."""
ONE = "com.example.Service"


def service(number: int) -> str:
    return f"{ONE}{number:05}"


@asynccontextmanager
async def large_cluster(directory: Path, services: int, instances: int, slots: int) -> AsyncIterator[str]:
    """A cluster with so much in it, and whose slot table has changed a few times: the address of its console."""
    size, transport = ClusterSize(meta=1, data=3, session=2, gateway=1), open_transport()
    try:
        with LocalCluster(directory, size, {"cluster.slots": slots}) as cluster:
            await cluster.ready(transport, READY_SECONDS)
            async with open_client(cluster.session_addresses, cluster.name) as client:
                await _fill(client, services, instances)
                data = cluster.of(Role.DATA)[1]
                data.kill()
                await asyncio.sleep(5)
                data.start()
                await cluster.ready(transport, READY_SECONDS)
                await asyncio.sleep(5)
                yield f"http://{cluster.gateway_addresses[0]}/ui/"
    finally:
        await transport.close()


async def _fill(client: Client, services: int, instances: int) -> None:
    async with asyncio.timeout(FILL_SECONDS):
        for number in range(instances):
            address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
            client.register(service(number % services), Instance(address, 8080))
            if number % AT_ONCE == AT_ONCE - 1:
                await client.flush()
        await client.flush()


class Interactions:
    """Somebody at the console of a large cluster.

    Args:
        browser: shows it.
        url: of the first page.
        services, slots: how many there are.
    """

    def __init__(self, browser: Chromium, url: str, services: int, slots: int) -> None:
        self._browser, self._url, self._services, self._slots = browser, url, services, slots
        self._rng = random.Random(1)

    async def measured(self, rounds: int) -> dict[str, list[float]]:
        """Milliseconds of each kind of interaction, ``rounds`` times."""
        found: dict[str, list[float]] = {}
        found["the very first page of a gateway"] = [await self._opened("")]
        for page in ("", "services", "servers", "slots", "history", "configuration", "election"):
            self._open(page)  # what nobody has asked for lately is asked of the servers first
            found[f"first paint of {page or 'now'}"] = [await self._opened(page) for _ in range(rounds)]
        found["first paint of a service"] = [await self._opened(f"services/{self._any()}") for _ in range(rounds)]
        self._open("services")
        found["search"] = [await self._done(self._search()) for _ in range(rounds)]
        found["search, the answer of the gateway alone"] = [await self._done(self._answer()) for _ in range(rounds)]
        self._open("services")
        found["next page"] = [await self._next_page() for _ in range(rounds)]
        self._open("slots")
        self._browser.until("document.getElementById('map').dataset.drawn > 0")
        await asyncio.sleep(1)
        found["hover"] = [await self._done(self._hover()) for _ in range(rounds)]
        found["arrow key"] = [await self._done(self._arrow()) for _ in range(rounds)]
        past = "fetch('/ui/slots/past.json').then((answer) => answer.json())"
        found["the last hour of the map, asked for before it is wanted"] = [
            await self._done(past) for _ in range(rounds)
        ]
        self._browser.evaluate("document.getElementById('when').dispatchEvent(new PointerEvent('pointerenter'))")
        await asyncio.sleep(1)  # from where the pointer comes over the slider until it has taken hold of it
        found["slider step"] = [await self._done(self._slide()) for _ in range(rounds)]
        return found

    def _any(self) -> str:
        return service(self._rng.randrange(self._services))

    def _open(self, page: str) -> None:
        self._browser.open(f"{self._url}{page}")

    async def _opened(self, page: str) -> float:
        await asyncio.sleep(0.2)
        await asyncio.to_thread(self._open, page)
        return await self._paint()

    async def _paint(self) -> float:
        return float(await asyncio.to_thread(self._browser.until, PAINTED))

    async def _gone(self, script: str) -> float:
        """The paint of the page that comes of a script."""
        await asyncio.sleep(0.2)
        self._browser.evaluate(f"globalThis.isOld = true; {script}; 0")
        await asyncio.to_thread(
            self._browser.until, "globalThis.isOld === undefined && document.readyState === 'complete'"
        )
        return await self._paint()

    def _sought(self) -> str:
        return f"{self._rng.randrange(self._services):05}"[1:]

    def _search(self) -> str:
        """Somebody types; it is done once what was found is there."""
        return (
            "new Promise((shown) => { document.addEventListener('shown', shown, { once: true }); "
            f"const q = document.getElementById('q'); q.value = '{self._sought()}'; "
            "q.dispatchEvent(new Event('input')); })"
        )

    def _answer(self) -> str:
        return f"fetch('/ui/services?q={self._sought()}').then((answer) => answer.text())"

    async def _next_page(self) -> float:
        return await self._gone(
            "(document.querySelector('[rel=next]') ?? document.querySelector('[rel=prev]')).click()"
        )

    async def _done(self, script: str) -> float:
        """Milliseconds until what a script does is painted. ``script``: an expression, may be a promise."""
        await asyncio.sleep(0.05)
        waits = "new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"
        timed = f"const began = performance.now(); await ({script}); await {waits}; return performance.now() - began;"
        return float(await asyncio.to_thread(self._browser.evaluate, f"(async () => {{ {timed} }})()"))

    def _hover(self) -> str:
        x, y = self._rng.random(), self._rng.random()
        place = f"clientX: box.left + {x} * box.width, clientY: box.top + {y} * box.height"
        return (
            "(() => { const map = document.getElementById('map'); const box = map.getBoundingClientRect(); "
            f"map.dispatchEvent(new PointerEvent('pointermove', {{ {place} }})); }})()"
        )

    def _arrow(self) -> str:
        key = self._rng.choice(["ArrowDown", "ArrowRight", "ArrowUp", "ArrowLeft", "PageDown"])
        return f"document.getElementById('map').dispatchEvent(new KeyboardEvent('keydown', {{ key: '{key}' }}))"

    def _slide(self) -> str:
        """To some time of the last minutes; it is done once the page says so."""
        return (
            "(async () => { const [when, text] = ['when', 'when-text'].map((id) => document.getElementById(id)); "
            f"const before = text.textContent; when.value = String(-{self._rng.randrange(1, 90)}); "
            "when.dispatchEvent(new Event('input')); "
            "const until = performance.now() + 5000; "
            "while (text.textContent === before && performance.now() < until) await new Promise(setTimeout); })()"
        )
