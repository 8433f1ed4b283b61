"""A registry in a thread of its own, for tests without an event loop, and for other threads and processes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, TypeVar

from slotreeve_client import BlockingClient, ClientOptions, Provider, connect_blocking

from slotreeve_testing.life import RegistryOptions
from slotreeve_testing.registry import RegistryUnderTest, registry

T = TypeVar("T")


class RegistryInThread:
    """A registry with the verbs of :class:`~slotreeve_testing.registry.RegistryUnderTest`, each of which blocks until
    it is done. A context manager; between its entry and its end any thread may use it."""

    def __init__(self, options: RegistryOptions) -> None:
        self._options = options
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="registry under test", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Event | None = None
        self._registry: RegistryUnderTest | None = None
        self._error: BaseException | None = None
        self._clients: list[BlockingClient] = []

    def __enter__(self) -> RegistryInThread:
        """Start. Raises what a server raises."""
        self._thread.start()
        self._started.wait()
        if self._registry is None:
            self._thread.join()
            assert self._error is not None
            raise self._error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End everything, with the clients of :meth:`connect_blocking` that are still open.

        Raises:
            FailureInServer: something in a server failed, and the block raised nothing.
        """
        assert self._loop is not None
        assert self._ending is not None
        try:
            for client in self._clients:
                client.close()
        finally:
            self._loop.call_soon_threadsafe(self._ending.set)
            self._thread.join()
            self._registry = None
        if self._error is not None:
            if error is None:
                raise self._error
            error.add_note(str(self._error))

    # --- where it is ---------------------------------------------------------------------------------------------

    @property
    def gateway_url(self) -> str:
        """``http://127.0.0.1:PORT``: the gateway, which speaks REST, Consul, Eureka, Prometheus and Envoy (REST)."""
        return self._here.gateway_url

    @property
    def dns_address(self) -> tuple[str, int]:
        """Host and port of DNS, over UDP and TCP."""
        return self._here.dns_address

    @property
    def session_addresses(self) -> list[str]:
        """``host:port`` of the session servers, for ``connect`` and ``connect_blocking`` of the SDK, in any process of
        this machine."""
        return self._here.session_addresses

    @property
    def servers(self) -> list[str]:
        """Names of the running servers, as ``data-1``."""
        return self._do(lambda: self._here.servers)

    @property
    def outsiders(self) -> list[str]:
        """Ids of the SDK clients that are connected, of any thread and process."""
        return self._do(lambda: self._here.outsiders)

    @property
    def meta_leader(self) -> str | None:
        """The meta server that leads; None: none does now."""
        return self._do(lambda: self._here.meta_leader)

    @property
    def now(self) -> float:
        """Seconds on the clock of the registry; only differences mean something."""
        return self._do(lambda: self._here.now)

    # --- verbs ---------------------------------------------------------------------------------------------------

    def connect_blocking(self, **options: Any) -> BlockingClient:
        """A client of the SDK for threads, over real sockets. What is open at the end is closed then.

        Args:
            options: fields of :class:`slotreeve_client.ClientOptions`.
        """
        client = connect_blocking(*self.session_addresses, options=ClientOptions(**options))
        self._clients.append(client)
        return client

    def instances(self, service: str) -> tuple[Provider, ...]:
        """See RegistryUnderTest."""
        return self._wait(self._here.instances(service))

    def advance(self, seconds: float) -> None:
        """See RegistryUnderTest."""
        self._wait(self._here.advance(seconds))

    def until(self, condition: Callable[[], object], what: str = "", seconds: float = 60.0) -> float:
        """See RegistryUnderTest. ``condition`` is called in the calling thread, so it may use the registry and blocking
        clients; while it is called, time passes at the pace of the wall. Raises RequestTimeout."""
        began = self.now
        while not condition():
            left = began + seconds - self.now
            self._wait(self._here.skip_or_fail(left, what or f"{condition}"))
        return self.now - began

    def settled(self, seconds: float = 60.0) -> float:
        """See RegistryUnderTest."""
        return self._wait(self._here.settled(seconds))

    def kill(self, name: str) -> str:
        """See RegistryUnderTest."""
        return self._wait(self._here.kill(name))

    def kill_session(self, name: str = "") -> str:
        """See RegistryUnderTest."""
        return self._wait(self._here.kill_session(name))

    def kill_data(self, name: str = "") -> str:
        """See RegistryUnderTest."""
        return self._wait(self._here.kill_data(name))

    def kill_meta_leader(self) -> str:
        """See RegistryUnderTest."""
        return self._wait(self._here.kill_meta_leader())

    def restart(self, name: str = "") -> None:
        """See RegistryUnderTest."""
        self._wait(self._here.restart(name))

    def freeze(self, name: str) -> None:
        """See RegistryUnderTest."""
        self._do(lambda: self._here.freeze(name))

    def thaw(self, name: str) -> None:
        """See RegistryUnderTest."""
        self._do(lambda: self._here.thaw(name))

    def cut(self, first: str, second: str) -> None:
        """See RegistryUnderTest."""
        self._do(lambda: self._here.cut(first, second))

    def heal(self) -> None:
        """See RegistryUnderTest."""
        self._do(self._here.heal)

    # --- inside --------------------------------------------------------------------------------------------------

    @property
    def _here(self) -> RegistryUnderTest:
        if self._registry is None:
            raise RuntimeError("this registry does not run: use it inside of its with block")
        return self._registry

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _do(self, action: Callable[[], T]) -> T:
        async def run() -> T:
            return action()

        return self._wait(run())

    def _run(self) -> None:
        try:
            asyncio.run(self._live())
        except BaseException as error:  # noqa: BLE001 - the thread of the test raises it
            self._error = error
        finally:
            self._started.set()

    async def _live(self) -> None:
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        async with registry(options=self._options) as made:
            self._registry = made
            self._started.set()
            await self._ending.wait()


def registry_in_thread(**options: Any) -> RegistryInThread:
    """A whole registry in a thread of its own, which programs of other threads and processes reach over real sockets.

    Args:
        options: fields of :class:`~slotreeve_testing.life.RegistryOptions`; ``doors`` is true by default.
    """
    return RegistryInThread(RegistryOptions(**{"doors": True, **options}))
