"""``slotreeve top``: what a cluster does, again and again."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from slotreeve_cli.options import DEFAULT_META, ClusterOption, MetaOption, Output, OutputOption

if TYPE_CHECKING:
    from slotreeve.ports import Transport
    from slotreeve_client.activity import Activity, Sample


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("top", epilog="Examples: slotreeve top  |  slotreeve top --interval 10 -n 6 -o json")(top)


@dataclass
class LiveCluster:
    """Looks at a cluster again and again.

    Attributes:
        addresses: of meta servers.
        interval: seconds between two looks.
        count: so many looks, after the first one; None: without end.
        stopping: ends it.
        now: tells the time in seconds.
        last: the newest sample.
    """

    transport: Transport
    cluster: str
    addresses: list[str]
    interval: float
    count: int | None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    now: Callable[[], float] = time.monotonic
    last: Sample | None = None

    async def begin(self) -> Activity:
        """The first look, which has no rates. Raises Unreachable: no meta server answers."""
        from slotreeve_client.activity import activity, take_sample

        self.last = await take_sample(self.transport, self.cluster, self.addresses, self.now)
        return activity(None, self.last)

    async def looks(self) -> AsyncIterator[Activity]:
        """One after each interval, until ``stopping``. While no meta server answers it has that as its only problem."""
        from slotreeve.errors import SlotreeveError
        from slotreeve_client.activity import Activity, activity, take_sample

        done = 0
        while self.count is None or done < self.count:
            try:
                async with asyncio.timeout(self.interval):
                    await self.stopping.wait()
                return
            except TimeoutError:
                done += 1
            try:
                newer = await take_sample(self.transport, self.cluster, self.addresses, self.now, self.last)
            except SlotreeveError as error:
                yield Activity(None, None, [], [], [f"{error.code}: {error}"])
                continue
            yield activity(self.last, newer)
            self.last = newer


def top(
    interval: Annotated[float, typer.Option(min=0.1, max=3_600, help="Seconds between two looks.")] = 2.0,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="End after so many looks.")] = None,
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    output: OutputOption = Output.TABLE,
) -> None:
    """Watch the cluster: who leads, what each server holds and does a second, busy slots, and what is not well. q or
    Ctrl-C ends it. Without a terminal it prints a table after each interval; as JSON one line."""
    from slotreeve_client.tools import run_async

    run_async(_top(meta, cluster, interval, count, output))


async def _top(addresses: list[str], cluster: str, interval: float, count: int | None, output: Output) -> None:
    from slotreeve_client.tools import open_transport

    from slotreeve_cli.run import stop_requested

    transport = open_transport()
    watch = LiveCluster(transport, cluster, addresses, interval, count, stop_requested(until_eof=False))
    try:
        first = await watch.begin()
        if output is Output.TABLE and sys.stdout.isatty():
            await _on_screen(watch, first)
        else:
            await _printed(watch, output)
    finally:
        await transport.close()


async def _printed(watch: LiveCluster, output: Output) -> None:
    from slotreeve_cli.printing import print_json
    from slotreeve_cli.top_screen import print_activity

    async for look in watch.looks():
        now = datetime.now(UTC)
        if output is Output.JSON:
            print_json(document(look, now))
        else:
            print_activity(look, now)
        sys.stdout.flush()


async def _on_screen(watch: LiveCluster, first: Activity) -> None:
    from slotreeve_cli.top_screen import Screen, key_ends

    with Screen() as screen, key_ends("q", watch.stopping):
        screen.show(first, datetime.now(UTC))
        async for look in watch.looks():
            screen.show(look, datetime.now(UTC))


def document(look: Activity, now: datetime) -> dict[str, object]:
    """An activity for programs. Rates are a second; null where there is none."""
    from slotreeve_client.activity import TOTALS

    return {
        "at": now.isoformat(timespec="milliseconds"),
        "leader": look.leader,
        "term": look.term,
        "totals": {figure: look.total(figure) for figure in TOTALS},
        "servers": [asdict(server) for server in look.servers],
        "busiest": [
            {
                "slot": busy.slot,
                "leader": busy.leader,
                "records": busy.load.records,
                "bytes": busy.load.bytes,
                "writes": busy.load.writes_per_second,
            }
            for busy in look.busiest
        ],
        "problems": look.problems,
    }
