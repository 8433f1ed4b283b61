"""A chaos run: a cluster behind proxies, a workload, one fault after the other, a history."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from slotreeve.errors import ClientError, RequestTimeout, TransportError
from slotreeve.model.nodes import Role
from slotreeve.ports import Transport
from slotreeve_client.administration import ask_any, cluster_leader, cluster_view, counters
from slotreeve_client.tools import client_options, open_transport
from slotreeve_harness.processes import ClusterSize, LocalCluster
from slotreeve_harness.server_logs import raised
from slotreeve_protocol.meta_messages import GetLeader, LeaderIs

from slotreeve_chaos.diallers import Diallers
from slotreeve_chaos.faults import ChaosFaults
from slotreeve_chaos.herd import HerdProcess
from slotreeve_chaos.history import HistoryRecorder, merge
from slotreeve_chaos.lateness import Lateness
from slotreeve_chaos.leases import ChaosLeases
from slotreeve_chaos.network_faults import HERD
from slotreeve_chaos.proxy import Proxy
from slotreeve_chaos.sql_servers import SqlServer
from slotreeve_chaos.targets import ChaosTargets
from slotreeve_chaos.workload import ChaosWorkload

LEASE_SECONDS = 2.0
POLL_SECONDS = 0.05
RECOVERY_SECONDS = 60.0
TRY_SECONDS = 10.0
NEWS_SECONDS = 0.5
"""Before that, a meta server that follows may still show the view from before the fault, in which nobody is missing."""
QUIET_SECONDS = 3.0
SIZE = ClusterSize(gateway=2)

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
        RequestTimeout: the cluster did not recover from a fault within a minute, not counting the time in which this
            process got no processor; the message holds the ends of logs.
        ClientError: there is no such kind of fault, or a process ended by itself.
    """
    if database is not None:
        lock = {"election.use": database.dialect, f"election.{database.dialect}.dsn": database.dsn()}
        settings = lock | (settings or {})
    cluster = LocalCluster(directory, SIZE, settings=SETTINGS | (settings or {}), behind_proxies=True)
    cluster.use_keys()
    herd = HerdProcess(directory, seed)
    parts = [directory / "run.jsonl", herd.history]
    try:
        async with AsyncExitStack() as stack:
            recorder = stack.enter_context(HistoryRecorder(parts[0]))
            stack.callback(_note_exceptions, cluster, recorder)  # once all servers have ended
            run = _ChaosRun(cluster, herd, recorder, random.Random(seed), database)
            run.check_kinds(only)
            await run.set_up(stack)
            await run.cause_faults(seconds, only, tell)
            tell("healing", recorder.now)
            await run.settle()
    finally:
        written = [part for part in parts if part.exists()]
        merge(written, directory / "history.jsonl")
        for part in written:
            part.unlink()
    return directory / "history.jsonl"


class _ChaosRun:
    """The cluster, its clients, and what watches them."""

    def __init__(
        self,
        cluster: LocalCluster,
        herd: HerdProcess,
        recorder: HistoryRecorder,
        rng: random.Random,
        database: SqlServer | None,
    ) -> None:
        self._cluster, self._herd, self._recorder, self._rng = cluster, herd, recorder, rng
        self._lateness = Lateness(recorder)
        diallers = Diallers(self._pids)
        self._proxies = {
            name: [Proxy(near, far, diallers) for near, far in pairs] for name, pairs in cluster.proxied.items()
        }
        self._options = client_options(cluster.name)
        self._workload = ChaosWorkload(cluster.session_addresses, self._options, recorder, rng)
        targets = ChaosTargets(cluster, recorder, rng, LEASE_SECONDS)
        self._faults = ChaosFaults(targets, self._proxies, self._workload, database)

    def check_kinds(self, only: list[str]) -> None:
        """Raise ClientError if there is no such kind of fault."""
        if unknown := set(only) - self._faults.kinds.keys():
            known = ", ".join(self._faults.kinds)
            raise ClientError(f"no such fault: {', '.join(sorted(unknown))}; there are {known}")

    async def set_up(self, stack: AsyncExitStack) -> None:
        """Start everything; ``stack`` ends it."""
        self._transport = open_transport(self._cluster.transport)
        stack.push_async_callback(self._transport.close)
        for proxies in self._proxies.values():
            for proxy in proxies:
                await proxy.start()
                stack.push_async_callback(proxy.stop)
        stack.enter_context(self._cluster)
        await self._cluster.ready(self._transport)
        stack.push_async_callback(self._workload.close)
        await self._workload.begin()
        self._leases = ChaosLeases(self._cluster, self._options, self._recorder, random.Random(self._rng.random()))
        stack.push_async_callback(self._leases.close)
        await self._leases.begin()
        stack.push_async_callback(self._herd.close)
        await self._herd.start(self._cluster.name, self._cluster.session_addresses, self._recorder.began)
        for watching in (_watch(self._cluster, self._transport, self._recorder), self._lateness.watch()):
            stack.push_async_callback(_cancel, asyncio.create_task(watching))

    def _pids(self) -> dict[str, int]:
        pids = {server.name: server.pid for server in self._cluster.servers.values() if server.is_running}
        return pids if self._herd.pid is None else pids | {HERD: self._herd.pid}

    async def cause_faults(self, seconds: float, only: list[str], tell: Callable[[str, float], None]) -> None:
        """One fault after the other; the next begins when the cluster is well again."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            what = self._rng.choice(only or list(self._faults.kinds))
            tell(what, self._recorder.now)
            await self._faults.commit(what)
            await self._recovered()
            await asyncio.sleep(self._rng.uniform(0.0, 1.0))

    async def settle(self) -> None:
        """All faults have ended: stop publishing, and record what must be seen."""
        await asyncio.sleep(QUIET_SECONDS)
        ends = asyncio.gather(self._workload.end(), self._herd.end(), self._leases.end())
        deadline = self._lateness.now() + RECOVERY_SECONDS
        while not (await asyncio.wait([ends], timeout=POLL_SECONDS))[0]:
            if self._lateness.now() > deadline:
                ends.cancel()
                raise RequestTimeout(f"not everything was acknowledged within {RECOVERY_SECONDS:g} s after healing")
        own, herds, leases = ends.result()
        await asyncio.sleep(QUIET_SECONDS)
        await self._leases.look()
        self._recorder.append("final", expected=own | herds | leases)

    async def _recovered(self) -> None:
        """Wait until all servers are members, every slot has all its copies, and every meta server follows a leader.
        One that lost its disk has no vote before that, and the next fault may take another disk. A leader whose
        follower is still copying has the only complete copy, and the next fault may take that."""
        await asyncio.sleep(NEWS_SECONDS)
        self._herd.check()
        deadline = self._lateness.now() + RECOVERY_SECONDS
        while True:
            try:
                await self._cluster.ready(self._transport, TRY_SECONDS)
                break
            except RequestTimeout:
                if self._lateness.now() > deadline:
                    raise
        for name, address in self._cluster.meta_addresses.items():
            while not await _follows(self._cluster, self._transport, address):
                if self._lateness.now() > deadline:
                    raise RequestTimeout(f"{name} follows no leader {RECOVERY_SECONDS:g} s after the last fault")
                await asyncio.sleep(POLL_SECONDS)
        while not await _is_settled(self._cluster, self._transport):
            if self._lateness.now() > deadline:
                raise RequestTimeout(f"slots still move, or are copied, {RECOVERY_SECONDS:g} s after the last fault")


def _note_exceptions(cluster: LocalCluster, recorder: HistoryRecorder) -> None:
    for server in cluster.servers.values():
        for what in raised(server.log):
            recorder.append("raised", server=server.name, what=what)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _follows(cluster: LocalCluster, transport: Transport, address: str) -> bool:
    try:
        return (await cluster_leader(transport, cluster.name, [address])).leader is not None
    except TransportError:
        return False


async def _is_settled(cluster: LocalCluster, transport: Transport) -> bool:
    """Whether the slot table stands still for a moment, and no data server takes over or copies a slot then."""
    metas = list(cluster.meta_addresses.values())
    try:
        before = (await cluster_view(transport, cluster.name, metas)).table.epoch
        await asyncio.sleep(NEWS_SECONDS)
        for server in cluster.of(Role.DATA):
            if (await counters(transport, cluster.name, server.dialled))["slots_unsettled"]:
                return False
        return (await cluster_view(transport, cluster.name, metas)).table.epoch == before
    except (TransportError, ClientError):
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
