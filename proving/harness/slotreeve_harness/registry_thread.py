"""A registry in a thread of this process, for tests of what blocks: nothing is started, and it is ready in a moment."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Protocol

from slotreeve.catalogue import Catalogue
from slotreeve.clock import MachineClock
from slotreeve.errors import RequestTimeout
from slotreeve.model.nodes import Role
from slotreeve_client.administration import complete_view
from slotreeve_machines.storage import DirectoryStorage
from slotreeve_protocol.meta_messages import Stopping
from slotreeve_servers.launch import ROLE_PORTS, Launcher
from slotreeve_servers.settings import load_settings

from slotreeve_harness.free_ports import free_offset

READY_SECONDS = 60.0


class _Stops(Protocol):
    async def stop(self, how: Stopping = ...) -> None:
        """End in order."""


class RegistryThread:
    """One meta, one data and one session server on free ports of loopback, on an event loop of their own; a context
    manager that waits until they serve. Its methods may be called from any other thread."""

    def __init__(self, settings: Mapping[str, object] | None = None) -> None:
        offset = free_offset(random.Random())
        self.meta_address = f"127.0.0.1:{ROLE_PORTS[Role.META] + offset}"
        self.session_address = f"127.0.0.1:{ROLE_PORTS[Role.SESSION] + offset}"
        flags = {"cluster.meta": {"meta-1": self.meta_address}, "node.port_offset": offset, "cluster.slots": 16}
        self._configuration = load_settings(None, {}, {**flags, **(settings or {})})
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="registry")

    def __enter__(self) -> RegistryThread:
        """Start.

        Raises:
            SlotreeveError: a server did not start.
            RequestTimeout: they do not serve within a minute.
        """
        self._thread.start()
        if not self._ready.wait(READY_SECONDS):
            self._stop()
            raise RequestTimeout(f"the registry in a thread does not serve after {READY_SECONDS:g} s")
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop in order."""
        self._stop()

    def _stop(self) -> None:
        if self._loop is not None and self._stopping is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - the thread that has started this one raises it
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        launcher = Launcher(self._configuration, Catalogue.load(), MachineClock(), random.Random())
        servers: list[_Stops] = []
        names, transports = set(), []
        try:
            for role in (Role.META, Role.DATA, Role.SESSION):
                environment = launcher.environment(role)
                transports.append(environment.transport)
                if role is not Role.META:
                    names.add(environment.node.name)
                server = launcher.server(environment, DirectoryStorage.open)
                await server.start()
                servers.append(server)
            replicas = self._configuration.settings.cluster.replicas
            metas = [self.meta_address]
            await complete_view(transports[0], launcher.cluster, metas, names, replicas, READY_SECONDS)
            self._ready.set()
            await self._stopping.wait()
        finally:
            for running in reversed(servers):
                await running.stop(Stopping.NO)
            await asyncio.gather(*(transport.close() for transport in transports))
