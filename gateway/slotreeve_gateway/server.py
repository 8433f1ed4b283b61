"""The shell of a gateway: one client of the registry, the faces, and their listener."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from slotreeve.catalogue import Catalogue
from slotreeve.clock import Clock
from slotreeve.errors import ConfigError, SlotreeveError
from slotreeve.model.nodes import Node, Role
from slotreeve.ports import Context, Face, Transport
from slotreeve.ports.transport import dialled
from slotreeve_client import Client, ClientOptions, ClientState
from slotreeve_client.administration import change_overrides
from slotreeve_console.certificates import Certificates, TlsFiles
from slotreeve_console.http_end import HttpEnd
from slotreeve_console.limits import HttpLimits
from slotreeve_protocol.live_settings import SETTINGS_KEY
from slotreeve_protocol.meta_messages import Stopping
from slotreeve_protocol.overrides import Overrides
from slotreeve_protocol.tokens import TOKENS_KEY
from slotreeve_servers.node.readiness import Condition
from slotreeve_servers.node.settings import GatewaySettings
from slotreeve_servers.node.settings_in_force import SettingsInForce
from slotreeve_servers.node.supervisor import Supervisor
from slotreeve_servers.node.timings import Timing
from slotreeve_servers.settings import ServerConfiguration, Settings

from slotreeve_gateway.access import GatewayAccess, OpenAccess
from slotreeve_gateway.denied import DeniedCallers
from slotreeve_gateway.directory import ServiceDirectory
from slotreeve_gateway.gateway import Gateway
from slotreeve_gateway.pages import FacePages
from slotreeve_gateway.registry import Registry
from slotreeve_gateway.servers import ClusterServers
from slotreeve_gateway.token_access import NOT_KNOWN, TokenAccess
from slotreeve_gateway.views import Views
from slotreeve_gateway.vouched_access import NO_KEYS, VouchedAccess

if TYPE_CHECKING:
    from slotreeve_gateway.openid import OpenIdTokens

SWEEP_SECONDS = 5.0
APPLICATION = "slotreeve gateway"


class GatewayServer:
    """One gateway process. It holds nothing that another gateway needs: any number of them may run, and a caller may go
    to another one at any time.

    Args:
        configuration: the settings; those in ``[gateway]`` and ``[face]`` are for gateways.
        catalogue: the installed plugins.
        transport: to the session servers, and to the meta servers for what operators change.
        node: this process; its address is where the faces that speak HTTP listen.
        access: who may do what; None: as the settings say.

    Attributes:
        settings_in_force: its settings, which an operator may change.

    Raises:
        ConfigError, PluginError: a face is unknown, its options are wrong, or the certificate cannot be used.
    """

    is_leading = False

    def __init__(
        self,
        configuration: ServerConfiguration,
        catalogue: Catalogue,
        clock: Clock,
        rng: random.Random,
        transport: Transport,
        node: Node,
        access: GatewayAccess | None = None,
    ) -> None:
        self._settings, self._catalogue = configuration.settings, catalogue
        self._chosen = configuration.check_faces(catalogue)
        self._clock, self._rng, self._transport, self.node = clock, rng, transport, node
        self._supervisor = Supervisor(clock)
        self.given_up = self._supervisor.given_up
        self.settings_in_force = SettingsInForce(configuration.settings, configuration.origins, Role.GATEWAY)
        self._client: Client | None = None
        self._views: Views | None = None
        self._faces: dict[str, Face] = {}
        self._pages = FacePages()
        cluster, rules = self._settings.cluster, self._settings.gateway
        metas = tuple(dialled(transport, name, address) for name, address in cluster.meta.items())
        self._servers = ClusterServers(transport, cluster.name, metas)
        denied = self._denied = DeniedCallers(node.name, self._servers, clock)
        self._tokens = TokenAccess(clock, rules.anonymous, denied.note) if rules.authentication == "tokens" else None
        self._openid = _openid(rules, clock)
        self._access = access or self._callers(rules) or OpenAccess()
        self._end = HttpEnd(self._pages, node.address, "gateway.listen", _limits(rules), _certificates(rules))

    def _callers(self, rules: GatewaySettings) -> GatewayAccess | None:
        if self._tokens is None or not rules.grants:
            return self._tokens
        return VouchedAccess(self._tokens, rules.grants, self._openid, self._denied.note, self._clock)

    @property
    def address(self) -> str:
        """Where the faces that speak HTTP listen."""
        return self._end.address

    @property
    def faces(self) -> Mapping[str, Face]:
        """The faces that were started, by name."""
        return self._faces

    async def start(self) -> None:
        """Build the faces and begin to answer. It does not wait for the registry: until a session server is reached,
        callers are told that there is none.

        Raises:
            SlotreeveError: a face cannot be built or started, or the address is taken.
        """
        settings = self._settings
        options = ClientOptions(
            cluster=settings.cluster.name,
            zone=settings.node.zone,
            transport=settings.transport.use,
            application=APPLICATION,
        )
        sessions = list(settings.gateway.sessions)
        client = self._client = Client(sessions, options, self._transport, self._clock, self._rng)
        if self._tokens is not None:
            tokens = self._tokens
            client.watch_config(TOKENS_KEY, lambda watch: tokens.take(watch.value))
        live = self.settings_in_force
        client.watch_config(SETTINGS_KEY, lambda watch: live.take(watch.value, watch.version))
        views = self._views = Views(client, self._clock, settings.gateway.most_services, settings.gateway.idle_seconds)
        directory = ServiceDirectory(client, self._clock, settings.gateway.directory_seconds)

        def changed(settings: Settings) -> None:
            rules = settings.gateway
            views.most, views.idle_seconds, directory.seconds = (
                rules.most_services,
                rules.idle_seconds,
                rules.directory_seconds,
            )
            self._end.limits = _limits(rules)

        live.follow(changed)
        gateway = Gateway(
            Registry(client, views, directory, self._change_overrides),
            self._servers,
            self._access,
            self._pages,
            self._clock,
            self._rng,
            self.node.name,
            settings.node.zone,
            settings.cluster.name,
            self.node.address.rpartition(":")[0],
            live,
        )
        context = Context(
            settings.cluster.name, settings.cluster.slots, self._clock, self._rng, self.node.name, gateway=gateway
        )
        for name, (entry, face_options) in self._chosen.items():
            face = self._catalogue.build(entry, face_options, context)
            assert isinstance(face, Face)
            self._faces[name] = face
            await face.start()
        await self._end.start()
        self._supervisor.start("sweep of the watched services", self._sweep)
        self._supervisor.start("denials", self._denied.run)
        if self._openid is not None:
            self._supervisor.start("keys of the OpenID provider", self._openid.run)

    async def _change_overrides(self, change: Callable[[Overrides], Overrides]) -> Overrides:
        servers = self._servers
        return (await change_overrides(servers.transport, servers.cluster, servers.metas, change))[1]

    async def _sweep(self) -> None:
        assert self._views is not None
        while True:
            await self._clock.sleep(SWEEP_SECONDS)
            self._views.sweep()

    async def stop(self, how: Stopping = Stopping.FOR_GOOD) -> None:
        """Answer what is open, for a second at most, and end. What callers have registered stays: leases belong to no
        gateway."""
        await self._end.stop()
        for name, face in self._faces.items():
            try:
                await face.stop()
            except Exception:  # noqa: BLE001 - a third party's face may raise anything; the others must end, too
                self._supervisor.failed(f"the end of the face {name}")
        await self._supervisor.stop()
        if self._client is not None:
            await self._client.close()

    # --- for its operators: slotreeve_servers.node.readiness.Inspected ---------------------------------------------

    def counters(self) -> dict[str, int]:
        """What the faces count, and what the gateway holds."""
        counted = {name: value for face in self._faces.values() for name, value in face.counters().items()}
        counted["gateway_services_watched"] = self._views.count if self._views is not None else 0
        counted |= self._end.counters()
        if self._tokens is not None:
            counted["gateway_openid_failures"] = self._openid.failures if self._openid is not None else 0
            counted |= {"gateway_tokens": self._tokens.count, "gateway_refused_tokens": self._tokens.refused}
        counted["loop_failures"] = sum(self._supervisor.failures.values())
        return counted

    def timings(self) -> Mapping[str, Timing]:
        """Nothing as yet."""
        return {}

    def readiness(self) -> Sequence[Condition]:
        """That there is a connection to the registry, and that the tokens are known where they are needed."""
        checks = [Condition("registry", self._why_not_connected())]
        if self._tokens is not None:
            checks.append(Condition("tokens", "" if self._tokens.is_known else NOT_KNOWN))
        if self._openid is not None:
            checks.append(Condition("openid", "" if self._openid.is_known else NO_KEYS))
        return checks

    def _why_not_connected(self) -> str:
        if self._client is None:
            return "no session server is connected"
        if self._client.state is ClientState.CONNECTED:
            return ""
        return self._client.why_not_connected() or "no session server is connected"

    @property
    def failure(self) -> str:
        """Why it cannot go on at all; empty while it can."""
        if not self.given_up.done():
            return ""
        error: SlotreeveError = self.given_up.result()
        return str(error)


def _openid(rules: GatewaySettings, clock: Clock) -> OpenIdTokens | None:
    """Reads tokens of the OpenID provider; None where there is none. Raises ConfigError."""
    if not rules.oidc_issuer:
        return None
    try:
        from slotreeve_gateway.openid import OpenIdTokens
    except ImportError as error:
        raise ConfigError(f"gateway.oidc_issuer needs another package ({error}); install slotreeve[oidc]") from None
    return OpenIdTokens(rules, clock)


def _limits(rules: GatewaySettings) -> HttpLimits:
    return HttpLimits(
        rules.most_connections,
        rules.longest_head_bytes,
        rules.head_seconds,
        rules.body_seconds,
        rules.keep_alive_seconds,
        rules.write_seconds,
    )


def _certificates(rules: GatewaySettings) -> Certificates | None:
    if not rules.tls_certificate:
        return None
    client_ca = Path(rules.tls_client_ca) if rules.tls_client_ca else None
    return Certificates(TlsFiles(Path(rules.tls_certificate), Path(rules.tls_key), client_ca))
