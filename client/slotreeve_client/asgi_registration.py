"""Registers an ASGI application, such as one of Starlette or FastAPI, while it serves::

    instance = Instance("10.0.0.1", 8080, scheme="http")
    registration = AsgiRegistration("com.example.Greeter", instance, lambda: connect("10.0.0.9:7730"))
    app = FastAPI(lifespan=registration.lifespan)

It imports no framework: whatever calls a function with the application to get an asynchronous context manager can use
it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from slotreeve.errors import ClientClosed, SlotreeveError
from slotreeve_protocol.instance import Instance

from slotreeve_client.client import Client, ClientState
from slotreeve_client.instance_publication import InstancePublication

log = logging.getLogger("slotreeve.client")

KNOCK_SECONDS = 0.05
"""Pause between two looks whether the server of the application accepts connections."""


class AsgiRegistration:
    """One instance of a service, registered while its application serves.

    An application begins before its server listens. So it is registered only once a connection to ``knock_at`` is
    accepted. It is withdrawn when the application ends, which is after its server has stopped to accept connections and
    has answered what was open; call :meth:`withdraw` before to be gone from the registry earlier.

    The application starts also where no session server is reached or one refuses it: :attr:`why_not_ready` says so, and
    the client goes on trying.

    Args:
        service: the name of the service.
        instance: what is registered.
        connect: makes the client of the registry, as ``lambda: slotreeve_client.connect("127.0.0.1:7730")``; it is
            called on the application's event loop.
        knock_at: host and port where the application's server listens; None: address and port of the instance.

    Attributes:
        client: the client, for other calls of the application; None while it does not run.
    """

    def __init__(
        self,
        service: str,
        instance: Instance,
        connect: Callable[[], Client],
        knock_at: tuple[str, int] | None = None,
    ) -> None:
        self.service, self.instance = service, instance
        self.client: Client | None = None
        self._connect = connect
        self._knock_at = knock_at if knock_at is not None else (instance.address, instance.port)
        self._publication: InstancePublication | None = None
        self._registering: asyncio.Task[None] | None = None
        self._why_not = "the application has not started"

    @asynccontextmanager
    async def lifespan(self, _application: object = None) -> AsyncIterator[None]:
        """Within: the client runs, and the instance is registered as soon as the application's server listens.

        Raises:
            RuntimeError: it runs already.
            SlotreeveError: the client cannot be made, or the name is not a valid service name.
        """
        if self.client is not None:
            raise RuntimeError(f"the registration of {self.service} runs already; make one for each application")
        self.client = client = self._connect()
        self._why_not = "its server does not accept connections yet"
        self._registering = asyncio.get_running_loop().create_task(
            self._register_when_serving(client), name=f"registration of {self.service}"
        )
        self._registering.add_done_callback(self._registered)
        try:
            yield
        finally:
            await self.withdraw()
            self.client = None
            await client.close()

    async def withdraw(self) -> None:
        """End the registration; the registry learns of it in the next moment. Idempotent."""
        registering, self._registering = self._registering, None
        self._why_not = "it was withdrawn"
        if registering is not None:
            registering.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(registering, return_exceptions=True)
        publication, self._publication = self._publication, None
        if publication is not None:
            try:
                publication.unpublish()
            except SlotreeveError as error:
                log.info("%s is not registered any more: %s", self.service, error)

    @property
    def is_ready(self) -> bool:
        """Whether the leader of the service's slot holds the instance."""
        return not self.why_not_ready

    @property
    def why_not_ready(self) -> str:
        """Why the registry does not hold the instance; empty where it does. For a page that an orchestrator asks."""
        client, publication = self.client, self._publication
        if client is None or publication is None:
            return self._why_not
        if publication.is_acknowledged:
            return ""
        refusal = publication.publication.ended or publication.publication.refused
        if refusal is not None:
            return str(refusal)
        if client.state is not ClientState.CONNECTED:
            return client.why_not_connected() or "no session server is connected"
        return self._why_not or "the leader of its slot has not acknowledged it yet"

    @property
    def publication(self) -> InstancePublication | None:
        """The registered instance, to update it or to say how it is; None while it is not registered."""
        return self._publication

    async def acknowledged(self) -> None:
        """Wait until the leader of the service's slot holds the instance.

        Raises:
            RegistrationError: the server refused it.
            ClientClosed: the application ended before, or has not started.
        """
        registering = self._registering
        if registering is None:
            raise ClientClosed(f"{self.service} is not registered: {self._why_not}")
        await asyncio.wait([registering])  # it neither cancels it nor is cancelled with it
        if not registering.cancelled():
            registering.result()
        if self._publication is None:
            raise ClientClosed(f"{self.service} is not registered: {self._why_not}")
        await self._publication.acknowledged()

    async def _register_when_serving(self, client: Client) -> None:
        while not await self._is_serving():  # noqa: ASYNC110 - nobody tells when a server begins to listen
            await asyncio.sleep(KNOCK_SECONDS)
        self._why_not = ""
        self._publication = client.register(self.service, self.instance)

    async def _is_serving(self) -> bool:
        try:
            _, writer = await asyncio.open_connection(*self._knock_at)
        except OSError:
            return False
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        return True

    def _registered(self, registering: asyncio.Task[None]) -> None:
        if not registering.cancelled() and (error := registering.exception()) is not None:
            self._why_not = str(error)
            log.error("%s cannot be registered: %s", self.service, error, exc_info=error)
