"""An operator of a simulated cluster: while a storm lasts he writes configuration, gives orders and changes settings;
after it he takes all of it back."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import msgspec
from slotreeve.errors import SlotreeveError
from slotreeve.ports.transport import dialled
from slotreeve_client.administration import change_orders, change_settings, put_config
from slotreeve_protocol.live_settings import SETTINGS_KEY, LiveSettings, live_setting
from slotreeve_protocol.orders import ORDERS_KEY, Orders
from slotreeve_transport_memory.transport import MemoryTransport

from slotreeve_simulator.cluster import ScenarioCluster
from slotreeve_simulator.configs_watch import CONFIG_KEYS, ConfigsWatch
from slotreeve_simulator.scenario import Scenario
from slotreeve_simulator.servers_watch import ServersWatch
from slotreeve_simulator.spared import NO_CORE, Core
from slotreeve_simulator.trace import Trace, Weight
from slotreeve_simulator.verdict import RunVerdict

NAME = "operator-tool"
PAUSES_SECONDS = (0.2, 2.5)
"""Between two things that the operator does."""
AGAIN_SECONDS = 0.2
"""Between two attempts at what the operator insists on."""
CHANGED_SETTINGS = {
    "session.push_window_seconds": (0.0, 0.2),
    "session.push_ceiling_seconds": (0.05, 1.0),
    "session.linger_seconds": (0.0, 1.0),
    "data.brake_few": (0, 40),
    "data.brake_hold_seconds": (0.5, 6.0),
    "meta.arrange_seconds": (0.1, 2.0),
}
"""What the operator changes, with the values between which he chooses. None of them lets anything end that a client of
the core has."""


class Operator:
    """The operator of one run, who spares the core of each storm as its faults do.

    Args:
        watches: are told which servers leave, and what is written.

    Attributes:
        is_there: whether the scenario has one.
    """

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        cluster: ScenarioCluster,
        watches: tuple[ServersWatch, ConfigsWatch],
        trace: Trace,
        verdict: RunVerdict,
    ) -> None:
        self.is_there, self._seed = scenario.workload.operator, seed
        self._longest_wait = scenario.faults.heal_seconds
        self._cluster, self._trace, self._verdict = cluster, trace, verdict
        self._servers, self._configs = watches
        self._core = NO_CORE
        self._transport: MemoryTransport | None = None
        self._task: asyncio.Task[None] | None = None
        self._values = itertools.count(1)

    def come(self) -> None:
        """Start the operator's process."""
        if self.is_there:
            self._cluster.process_clock(NAME)
            self._transport = self._cluster.transport(NAME)

    def storm_begins(self, number: int, core: Core) -> None:
        """Act until :meth:`storm_ends`."""
        if self.is_there:
            self._core = core
            rng = random.Random(f"{self._seed}/operator/{number}")
            self._task = asyncio.get_running_loop().create_task(self._act(rng), name=NAME)

    async def storm_ends(self) -> None:
        """Take back every order and setting. What was under way is written over: it comes too late for its version.
        Raises what ended the operator."""
        if self._task is None:
            return
        self._task.cancel()
        ended = await asyncio.gather(self._task, return_exceptions=True)
        self._task = None
        if isinstance(ended[0], Exception):
            raise ended[0]
        await self._insist("takes back the orders", lambda: self._put(ORDERS_KEY, Orders().encode()))
        await self._insist("takes back the settings", lambda: self._put(SETTINGS_KEY, LiveSettings().encode()))

    async def order(self, change: Callable[[Orders], Orders]) -> None:
        """Change the orders, however often that has to be tried. It breaks an invariant if it takes longer than the
        cluster may take to recover."""

        async def ordered() -> None:
            await change_orders(*self._way(), change)

        await self._insist("gives an order", ordered)

    async def write_each(self) -> None:
        """Write every key that clients watch, in the same way."""

        async def written(key: str) -> None:
            entry = await put_config(*self._way(), key, f"value {next(self._values)}".encode())
            self._configs.written(entry, NAME)

        for key in CONFIG_KEYS if self.is_there else ():
            await self._insist(f"writes {key}", partial(written, key))

    async def order_what_is_lost(self) -> None:
        """Stop pushes, and change a setting: neither may be in force once the meta state is lost."""
        if not self.is_there:
            return

        async def is_set() -> None:
            await change_settings(*self._way(), lambda _: LiveSettings({"data.brake_few": 30}))

        await self.order(lambda orders: msgspec.structs.replace(orders, push_stopped=True))
        await self._insist("changes a setting", is_set)

    # --- what the operator does --------------------------------------------------------------------------------------

    async def _act(self, rng: random.Random) -> None:
        acts: Sequence[Callable[[random.Random], Awaitable[None]]] = (
            self._write,
            self._ban,
            self._stop_pushes,
            self._switch_off,
            self._freeze_ends,
            self._set,
        )
        while True:
            await asyncio.sleep(rng.uniform(*PAUSES_SECONDS))
            act = rng.choices(acts, (4, 3, 2, 2, 2, 3))[0]
            try:
                await act(rng)
            except SlotreeveError as error:
                self._trace.note(Weight.DETAIL, f"{NAME} does not succeed: {type(error).__name__}")

    async def _write(self, rng: random.Random) -> None:
        value = None if rng.random() < 0.2 else f"value {next(self._values)}".encode()
        self._note(f"writes {value!r}")
        entry = await put_config(*self._way(), rng.choice(CONFIG_KEYS), value)
        self._configs.written(entry, NAME)

    async def _ban(self, rng: random.Random) -> None:
        """Ban a server outside the core, or lift a ban. One data server and one session server at least stay."""
        servers = [name for name in self._cluster.names if name.startswith(("data-", "session-"))]
        name = rng.choice(servers)
        role = name.partition("-")[0]
        others = {server for server in servers if server.startswith(role)} - {name}
        if name in self._core.servers:
            return

        def changed(orders: Orders) -> Orders:
            if name in orders.banned:
                return msgspec.structs.replace(orders, banned=orders.banned - {name})
            if not others - orders.banned:
                return orders
            return msgspec.structs.replace(orders, banned=orders.banned | {name})

        self._servers.leaving.add(name)
        await self._order(f"bans {name}, or lifts the ban", changed)

    async def _stop_pushes(self, rng: random.Random) -> None:
        to = frozenset(name for name in self._cluster.clients if rng.random() < 0.3)

        def changed(orders: Orders) -> Orders:
            return msgspec.structs.replace(orders, push_stopped=not orders.push_stopped, push_to=to)

        await self._order(f"stops pushes but to {', '.join(sorted(to)) or 'nobody'}, or lets them go on", changed)

    async def _switch_off(self, rng: random.Random) -> None:
        """Let nobody see a client outside the core, or let it be seen again."""
        candidates = sorted(self._cluster.clients.keys() - self._core.clients)
        if not candidates:
            return
        name = rng.choice(candidates)

        def changed(orders: Orders) -> Orders:
            return msgspec.structs.replace(orders, clients_off=orders.clients_off ^ {name})

        await self._order(f"switches {name} off or on", changed)

    async def _freeze_ends(self, _rng: random.Random) -> None:
        def changed(orders: Orders) -> Orders:
            return msgspec.structs.replace(orders, ends_frozen=not orders.ends_frozen)

        await self._order("freezes the ends of registrations, or lets them go on", changed)

    async def _set(self, rng: random.Random) -> None:
        """Change a live setting, or remove it."""
        name = rng.choice(list(CHANGED_SETTINGS))
        least, most = CHANGED_SETTINGS[name]
        drawn = rng.uniform(least, most)
        value = live_setting(name).of(round(drawn) if isinstance(least, int) else drawn)
        is_removed = rng.random() < 0.3

        def changed(table: LiveSettings) -> LiveSettings:
            others = {known: value for known, value in table.values.items() if known != name}
            return LiveSettings(others if is_removed else {**others, name: value})

        self._note(f"removes the setting {name}" if is_removed else f"sets {name} to {value}")
        await change_settings(*self._way(), changed)

    # --- calls -------------------------------------------------------------------------------------------------------

    async def _order(self, what: str, change: Callable[[Orders], Orders]) -> None:
        self._note(what)
        await change_orders(*self._way(), change)

    async def _put(self, key: str, value: bytes | None) -> None:
        await put_config(*self._way(), key, value)

    async def _insist(self, what: str, call: Callable[[], Awaitable[None]]) -> None:
        self._note(what)
        loop = asyncio.get_running_loop()
        until = loop.time() + self._longest_wait
        while True:
            try:
                await call()
                return
            except SlotreeveError as error:
                self._trace.note(Weight.DETAIL, f"{NAME} tries again: {type(error).__name__}")
                if loop.time() > until:
                    found = f"{NAME} {what}, and did not succeed for {self._longest_wait:g} s: {error}"
                    self._verdict.violate("convergence", found)
                    return
            await asyncio.sleep(AGAIN_SECONDS)

    def _note(self, what: str) -> None:
        self._trace.note(Weight.STEP, f"{NAME} {what}")

    def _way(self) -> tuple[MemoryTransport, str, list[str]]:
        """The transport, the cluster, and the meta servers."""
        assert self._transport is not None, "this scenario has no operator"
        meta = [name for name in self._cluster.names if name.startswith("meta-")]
        addresses = [dialled(self._transport, name, self._cluster.address(name)) for name in meta]
        return self._transport, self._cluster.settings.cluster.name, addresses
