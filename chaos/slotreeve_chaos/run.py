"""A chaos run: a cluster behind proxies, a workload, one fault after the other, a history."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from slotreeve.catalogue import build_plugin
from slotreeve.clock import LoopClock
from slotreeve.errors import ClientError, RequestTimeout, TransportError
from slotreeve.offers import Port
from slotreeve.ports import Context, Transport
from slotreeve_client import ClientOptions
from slotreeve_client.administration import ask_any, cluster_leader, cluster_view
from slotreeve_harness.processes import LocalCluster
from slotreeve_harness.sql_servers import SqlServer
from slotreeve_protocol.meta_messages import GetLeader, LeaderIs

from slotreeve_chaos.faults import ChaosFaults
from slotreeve_chaos.history import HistoryRecorder
from slotreeve_chaos.proxy import Proxy
from slotreeve_chaos.workload import ChaosWorkload

LEASE_SECONDS = 2.0
POLL_SECONDS = 0.05
RECOVERY_SECONDS = 60.0
QUIET_SECONDS = 3.0

SETTINGS: dict[str, object] = {"meta.lease_seconds": LEASE_SECONDS, "meta.heartbeat_seconds": LEASE_SECONDS / 4}


async def run_chaos(
    directory: Path,
    seconds: float,
    seed: int,
    only: list[str],
    tell: Callable[[str, float], None],
    settings: dict[str, object] | None = None,
    database: SqlServer | None = None,
) -> Path:
    """Run for ``seconds``, end all faults, and return the history (``history.jsonl`` in ``directory``).

    The seed decides faults, victims and the workload's choices; timing is the machine's. ``only``: these kinds of
    faults, all of them where empty. ``directory`` exists. ``tell(what, elapsed)`` is called at each fault.
    ``database``: a running server whose lock elects the meta leader; faults strike it, too.

    Raises:
        RequestTimeout: the cluster did not recover from a fault within a minute; the message holds the ends of logs.
        ClientError: there is no such kind of fault.
    """
    rng = random.Random(seed)
    file = directory / "history.jsonl"
    if database is not None:
        lock = {"election.use": database.dialect, f"election.{database.dialect}.dsn": database.dsn()}
        settings = lock | (settings or {})
    cluster = LocalCluster(directory, settings=SETTINGS | (settings or {}), behind_proxies=True)
    transport = build_plugin(Port.TRANSPORT, cluster.transport, Context("", 0, LoopClock(), random.Random(seed)))
    assert isinstance(transport, Transport)
    async with AsyncExitStack() as stack:
        recorder = stack.enter_context(HistoryRecorder(file))
        stack.push_async_callback(transport.close)
        proxies = {}
        for name, pairs in cluster.proxied.items():
            proxies[name] = [Proxy(near, far) for near, far in pairs]
            for proxy in proxies[name]:
                await proxy.start()
                stack.push_async_callback(proxy.stop)
        stack.enter_context(cluster)
        await cluster.ready(transport)
        workload = ChaosWorkload(cluster.session_addresses, ClientOptions(cluster=cluster.name), recorder, rng)
        stack.push_async_callback(workload.close)
        await workload.begin()
        watching = asyncio.create_task(_watch(cluster, transport, recorder))
        faults = ChaosFaults(cluster, proxies, workload, recorder, rng, LEASE_SECONDS, database)
        if unknown := set(only) - faults.kinds.keys():
            raise ClientError(f"no such fault: {', '.join(sorted(unknown))}; there are {', '.join(faults.kinds)}")
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            what = rng.choice(only or list(faults.kinds))
            tell(what, recorder.now)
            await faults.commit(what)
            await _recovered(cluster, transport)
            await asyncio.sleep(rng.uniform(0.0, 1.0))
        tell("healing", recorder.now)
        await asyncio.sleep(QUIET_SECONDS)
        try:
            async with asyncio.timeout(RECOVERY_SECONDS):
                expected = await workload.end()
        except TimeoutError:
            raise RequestTimeout(
                f"not everything was acknowledged within {RECOVERY_SECONDS:g} s after healing"
            ) from None
        await asyncio.sleep(QUIET_SECONDS)
        recorder.append("final", expected=expected)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    return file


async def _recovered(cluster: LocalCluster, transport: Transport) -> None:
    """Wait until all servers are members, every slot is held, and every meta server follows a leader. One that
    lost its disk has no vote before that, and the next fault may take another disk."""
    for server in cluster.servers.values():
        if server.has_failed:
            raise ClientError(f"{server.name} ended by itself:\n{server.tail()}")
    await cluster.ready(transport, RECOVERY_SECONDS)
    deadline = time.monotonic() + RECOVERY_SECONDS
    for name, address in cluster.meta_addresses.items():
        while not await _follows(cluster, transport, address):
            if time.monotonic() > deadline:
                raise RequestTimeout(f"{name} follows no leader {RECOVERY_SECONDS:g} s after the last fault")
            await asyncio.sleep(POLL_SECONDS)


async def _follows(cluster: LocalCluster, transport: Transport, address: str) -> bool:
    try:
        return (await cluster_leader(transport, cluster.name, [address])).leader is not None
    except TransportError:
        return False


async def _watch(cluster: LocalCluster, transport: Transport, recorder: HistoryRecorder) -> None:
    """Record the leader that each meta server reports, and the newest view."""
    while True:
        for name, address in cluster.meta_addresses.items():
            try:
                reply = await ask_any(transport, cluster.name, [address], GetLeader(), 0.5)
            except (TransportError, ClientError):
                continue
            if isinstance(reply, LeaderIs):
                recorder.append("leader", asked=name, leader=reply.leader, term=reply.term)
        try:
            view = await cluster_view(transport, cluster.name, cluster.meta_addresses.values())
            recorder.append("view", term=view.term, epoch=view.table.epoch, revision=view.revision)
        except (TransportError, ClientError):
            pass  # no leader for the moment: there is nothing to write down
        await asyncio.sleep(POLL_SECONDS)
