"""The contract of a transport with keys: who is let in, who counts as an answer, and who has to go.

A class of tests derives from :class:`TransportKeysContract` and says how its transport is built.
"""

# ruff: noqa: D102 - the names of tests are sentences

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from slotreeve.clock import Clock, LoopClock
from slotreeve.errors import Refused, Unreachable
from slotreeve.keys import KeyPair, KeyRing, TrustedKeys, with_name
from slotreeve.model.nodes import Role
from slotreeve.ports import Hello, Listener, Transport

from slotreeve_conformance.transport_scene import PATIENCE_SECONDS, RecordingHandler, TransportScene, until

ATTEMPT_SECONDS = 2.0
"""An attempt that must fail is given up after this time."""
SESSION = Hello("test", "session-1", Role.SESSION, "session-process")
DATA = Hello("test", "data-1", Role.DATA, "data-process")


class Trust:
    """The keys of some processes, and the list that they trust; a change reaches all of them."""

    def __init__(self, pairs: Mapping[tuple[Role, str], list[KeyPair]]) -> None:
        self.pairs = dict(pairs)
        self._list = self._trusted()

    def of(self, role: Role, name: str, number: int = -1) -> KeyRing:
        """The keys of one process; with ``number``, that one of several."""
        return KeyRing(self.pairs[role, name][number], self._list, lambda: self._list)

    def change(self, role: Role, name: str, pairs: list[KeyPair]) -> None:
        """These keys are trusted for a name from now on."""
        self.pairs[role, name] = pairs
        self._list = self._trusted()

    def _trusted(self) -> TrustedKeys:
        rows: dict[Role, dict[str, list[str]]] = {}
        for (role, name), pairs in self.pairs.items():
            rows.setdefault(role, {})[name] = [pair.public for pair in pairs]
        return TrustedKeys(rows)


@dataclass
class Listening:
    """A session server that listens, and what trusts it."""

    contract: TransportKeysContract
    trust: Trust
    server: Transport
    listener: Listener
    handler: RecordingHandler
    address: str

    @asynccontextmanager
    async def dialler(self, keys: KeyRing | None) -> AsyncIterator[tuple[Transport, RecordingHandler]]:
        """Another process with these keys."""
        transport = self.contract.build_with_keys(LoopClock(), keys)
        try:
            yield transport, RecordingHandler()
        finally:
            await transport.close()

    async def attempt(self, keys: KeyRing | None, hello: Hello, address: str = "") -> None:
        """Connect, with few seconds of patience; raises as the transport does."""
        async with self.dialler(keys) as (transport, handler):
            await transport.connect(address or self.address, hello, handler, ATTEMPT_SECONDS)


class TransportKeysContract(TransportScene):
    """Tests of a transport with keys; see the module."""

    def build_with_keys(self, clock: Clock, keys: KeyRing | None) -> Transport:
        """A new transport with these keys. A subclass must override it."""
        raise NotImplementedError

    def new_pair(self) -> KeyPair:
        """A new key. A subclass must override it."""
        raise NotImplementedError

    def check_listening(
        self, scenario: Callable[[Listening], Awaitable[None]], *, hello: Hello = SESSION, has_keys: bool = True
    ) -> None:
        """Run a scenario with a session server that listens and introduces itself with ``hello``."""

        async def main() -> None:
            names = [(Role.SESSION, "session-1"), (Role.DATA, "data-1"), (Role.META, "meta-1")]
            names += [(Role.CLIENT, "shop"), (Role.TOOL, "night")]
            trust = Trust({key: [self.new_pair()] for key in [*names, (Role.GATEWAY, "gateway-1")]})
            keys = trust.of(Role.SESSION, "session-1") if has_keys else None
            server, handler = self.build_with_keys(LoopClock(), keys), RecordingHandler()
            try:
                listener = await server.listen(self.address, hello, handler)
                address = with_name("session-1", listener.address)
                await scenario(Listening(self, trust, server, listener, handler, address))
            finally:
                await server.close()

        self.run(main())

    # --- who is let in -----------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("role", "name", "hello"),
        [
            (Role.DATA, "data-1", DATA),
            (Role.META, "meta-1", Hello("test", "meta-1 (probe)", Role.META, "p")),
            (Role.CLIENT, "shop", Hello("test", "shop/9f3a", Role.CLIENT, "p")),
            (Role.TOOL, "night", Hello("test", "somebody", Role.TOOL, "p")),
            (Role.TOOL, "night", Hello("test", "night/9f3a", Role.CLIENT, "p")),
            (Role.GATEWAY, "gateway-1", Hello("test", "gateway-1/9f3a", Role.CLIENT, "p")),
            (Role.GATEWAY, "gateway-1", Hello("test", "somebody", Role.TOOL, "p")),
        ],
    )
    def test_who_holds_a_trusted_key_may_be_what_the_key_is_for(self, role: Role, name: str, hello: Hello) -> None:
        async def scenario(there: Listening) -> None:
            async with there.dialler(there.trust.of(role, name)) as (transport, handler):
                connection = await transport.connect(there.address, hello, handler, PATIENCE_SECONDS)
                assert connection.peer == SESSION
                await until(lambda: there.handler.connections != [])
                assert there.handler.connections[0].peer == hello
            assert there.server.counters.refused_keys == there.server.counters.malformed_frames == 0

        self.check_listening(scenario)

    @pytest.mark.parametrize(
        ("role", "name", "hello", "reason"),
        [
            (Role.DATA, "data-1", Hello("test", "data-1", Role.META, "p"), "'data-1' is that of a data, not of a meta"),
            (Role.DATA, "data-1", Hello("test", "data-1", Role.SESSION, "p"), "not of a session"),
            (Role.DATA, "data-1", Hello("test", "data-1", Role.TOOL, "p"), "not of a tool"),
            (Role.DATA, "data-1", Hello("test", "data-2", Role.DATA, "p"), "that of 'data-1', not of 'data-2'"),
            (Role.DATA, "data-1", Hello("test", "data-10", Role.DATA, "p"), "that of 'data-1', not of 'data-10'"),
            (Role.DATA, "data-1", Hello("test", "data-1 (probe)", Role.DATA, "p"), "not of 'data-1 "),
            (Role.META, "meta-1", Hello("test", "meta-1 (2)", Role.META, "p"), "not of 'meta-1 "),
            (Role.CLIENT, "shop", Hello("test", "shop", Role.TOOL, "p"), "not of a tool"),
            (Role.CLIENT, "shop", Hello("test", "data-1", Role.DATA, "p"), "not of a data"),
            (Role.CLIENT, "shop", Hello("test", "9f3a", Role.CLIENT, "p"), "begins with 'shop/'"),
            (Role.CLIENT, "shop", Hello("test", "shopper/9f3a", Role.CLIENT, "p"), "begins with 'shop/'"),
            (Role.TOOL, "night", Hello("test", "shop/9f3a", Role.CLIENT, "p"), "begins with 'night/'"),
            (Role.TOOL, "night", Hello("test", "x" * 500, Role.TOOL, "p"), "expected at most 400"),
            (Role.TOOL, "night", Hello("test", "somebody\n", Role.TOOL, "p"), "printable"),
            (Role.GATEWAY, "gateway-1", Hello("test", "session-1", Role.SESSION, "p"), "not of a session"),
            (Role.TOOL, "night", Hello("test", "meta-1", Role.META, "p"), "not of a meta"),
        ],
    )
    def test_who_is_not_what_its_key_is_for_is_refused_with_the_reason(
        self, role: Role, name: str, hello: Hello, reason: str
    ) -> None:
        async def scenario(there: Listening) -> None:
            with pytest.raises(Refused, match=reason):
                await there.attempt(there.trust.of(role, name), hello)
            assert there.handler.events == []
            assert there.server.counters.refused_hellos == 1

        self.check_listening(scenario)

    def test_a_key_that_is_not_trusted_is_refused_before_the_hello_is_read(self) -> None:
        async def scenario(there: Listening) -> None:
            stranger = KeyRing(self.new_pair(), there.trust.of(Role.DATA, "data-1").trusted)
            with pytest.raises(Refused, match="the key of this process is not trusted there"):
                await there.attempt(stranger, DATA)
            await until(lambda: there.server.counters.refused_keys == 1)
            assert there.handler.events == []
            assert there.server.counters.refused_hellos == 0

        self.check_listening(scenario)

    def test_a_process_without_keys_is_not_let_in(self) -> None:
        async def scenario(there: Listening) -> None:
            for address in (there.address, there.listener.address):
                with pytest.raises(Unreachable):
                    await there.attempt(None, DATA, address)
            assert there.handler.events == []

        self.check_listening(scenario)

    # --- who counts as an answer -------------------------------------------------------------------------------------

    def test_a_listener_without_keys_is_no_answer_to_a_process_with_keys(self) -> None:
        async def scenario(there: Listening) -> None:
            with pytest.raises(Unreachable):
                await there.attempt(there.trust.of(Role.DATA, "data-1"), DATA)
            assert there.handler.events == []

        self.check_listening(scenario, has_keys=False)

    def test_a_listener_with_another_key_than_the_one_of_its_name_is_no_answer(self) -> None:
        async def scenario(there: Listening) -> None:
            with pytest.raises(Unreachable):
                await there.attempt(
                    there.trust.of(Role.TOOL, "night"),
                    Hello("test", "somebody", Role.TOOL, "p"),
                    with_name("data-1", there.listener.address),
                )
            assert there.handler.events == []

        self.check_listening(scenario)

    @pytest.mark.parametrize("name", ["", "nobody-1"])
    def test_an_address_must_say_whose_key_is_expected(self, name: str) -> None:
        async def scenario(there: Listening) -> None:
            address = with_name(name, there.listener.address) if name else there.listener.address
            with pytest.raises(Unreachable, match=r"NAME@|no key of 'nobody-1' is trusted here"):
                await there.attempt(there.trust.of(Role.DATA, "data-1"), DATA, address)

        self.check_listening(scenario)

    @pytest.mark.parametrize(
        "hello", [Hello("test", "session-2", Role.SESSION, "p"), Hello("test", "session-1", Role.META, "p")]
    )
    def test_a_listener_that_is_not_what_its_key_is_for_is_refused(self, hello: Hello) -> None:
        async def scenario(there: Listening) -> None:
            async with there.dialler(there.trust.of(Role.DATA, "data-1")) as (transport, handler):
                with pytest.raises(Refused, match="not of"):
                    await transport.connect(there.address, DATA, handler, PATIENCE_SECONDS)
                assert handler.events == []

        self.check_listening(scenario, hello=hello)

    # --- keys that change --------------------------------------------------------------------------------------------

    def test_a_key_that_is_trusted_no_more_has_to_go(self) -> None:
        async def scenario(there: Listening) -> None:
            keys = there.trust.of(Role.DATA, "data-1")
            stays = there.trust.of(Role.TOOL, "night")
            async with there.dialler(keys) as (transport, handler), there.dialler(stays) as (other, others):
                await transport.connect(there.address, DATA, handler, PATIENCE_SECONDS)
                kept = await other.connect(
                    there.address, Hello("test", "somebody", Role.TOOL, "p"), others, PATIENCE_SECONDS
                )
                there.trust.change(Role.DATA, "data-1", [])
                began = asyncio.get_running_loop().time()
                await until(lambda: there.handler.reasons != [])
                assert asyncio.get_running_loop().time() - began < PATIENCE_SECONDS / 2
                await until(lambda: handler.reasons != [])
                assert "not trusted any more" in there.handler.reasons[0]
                assert not kept.closed
            with pytest.raises(Refused):
                await there.attempt(keys, DATA)

        self.check_listening(scenario)

    def test_who_dials_leaves_a_listener_whose_key_is_trusted_no_more(self) -> None:
        async def scenario(there: Listening) -> None:
            mine = KeyRing(there.trust.pairs[Role.DATA, "data-1"][0], there.trust.of(Role.DATA, "data-1").trusted)
            async with there.dialler(mine) as (transport, handler):
                await transport.connect(there.address, DATA, handler, PATIENCE_SECONDS)
                mine.trusted = TrustedKeys({})
                await until(lambda: handler.reasons != [])
                assert "the key of session-1 is not trusted any more" in handler.reasons[0]
                with pytest.raises(Unreachable, match="no key of 'session-1'"):
                    await transport.connect(there.address, DATA, handler, PATIENCE_SECONDS)

        self.check_listening(scenario)

    @pytest.mark.parametrize("has_newer", [True, False])
    def test_while_one_key_replaces_another_a_listener_may_have_either(self, has_newer: bool) -> None:
        async def scenario(there: Listening) -> None:
            present = there.trust.pairs[Role.SESSION, "session-1"]
            both = [self.new_pair(), *present] if has_newer else [*present, self.new_pair()]
            there.trust.change(Role.SESSION, "session-1", both)
            async with there.dialler(there.trust.of(Role.DATA, "data-1")) as (transport, handler):
                connection = await transport.connect(there.address, DATA, handler, PATIENCE_SECONDS)
                assert connection.peer == SESSION

        self.check_listening(scenario)

    def test_a_process_may_come_in_with_its_new_key_before_the_old_one_goes(self) -> None:
        async def scenario(there: Listening) -> None:
            old, new = there.trust.pairs[Role.DATA, "data-1"][0], self.new_pair()
            there.trust.change(Role.DATA, "data-1", [old, new])
            await asyncio.sleep(1.0)  # longer than the listener takes to look again
            for number in (0, 1):
                async with there.dialler(there.trust.of(Role.DATA, "data-1", number)) as (transport, handler):
                    await transport.connect(there.address, DATA, handler, PATIENCE_SECONDS)
            assert there.server.counters.refused_keys == 0

        self.check_listening(scenario)
