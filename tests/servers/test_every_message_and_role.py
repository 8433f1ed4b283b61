"""Every message and every role: what a process may not send is refused before a core sees it.

Made from the table of messages (:mod:`slotreeve_protocol.senders`): each server of a cluster with keys gets each
message from a process of each role, over a connection that its key has opened.
"""

from __future__ import annotations

import logging
import random
import typing
from collections.abc import Mapping

import pytest
from slotreeve.errors import Refused
from slotreeve.keys import SPEAKS_AS, KeyRing
from slotreeve.model.nodes import Role
from slotreeve.ports import Connection, Hello, Message
from slotreeve.ports.transport import dialled
from slotreeve_conformance.virtual_time import run
from slotreeve_protocol.general_messages import Failed, Goodbye
from slotreeve_protocol.messages import AnyMessage
from slotreeve_protocol.senders import SENDERS, senders_to
from slotreeve_servers.node.dispatch import UNEXPECTED
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_simulator.simulated_keys import SimulatedTrust

from tests.protocol.test_codec import SAMPLES as GOOD

SERVERS = (Role.META, Role.DATA, Role.SESSION)
SAMPLES: Mapping[type[Message], Message] = {type(message): message for message in GOOD}
OF_CONNECTIONS = {Hello, Goodbye}
"""The connection takes them itself."""
NAMES = {Role.META: "meta-9", Role.DATA: "data-9", Role.SESSION: "session-9", Role.CLIENT: "shop", Role.TOOL: "a-tool"}


class Silent:
    """A handler that keeps no message."""

    def opened(self, connection: Connection) -> None:
        """Nothing to do."""

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        """Nothing to do."""

    def closed(self, connection: Connection, reason: str) -> None:
        """Nothing to do."""


class KeyedCluster(SimulatedCluster):
    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng, meta=1, data=1, session=1, settings={"cluster.replicas": 1})
        self.trust = SimulatedTrust()

    def keys(self, name: str) -> KeyRing | None:
        return self.trust.keys_of(name)


def forbidden(receiver: Role, sender: Role) -> list[Message]:
    allowed = senders_to(receiver)
    return [
        sample
        for kind, sample in sorted(SAMPLES.items(), key=lambda item: item[0].__name__)
        if kind not in OF_CONNECTIONS and sender not in allowed.get(kind, frozenset())
    ]


def test_there_is_a_sample_of_every_message() -> None:
    assert set(SAMPLES) == set(typing.get_args(AnyMessage)) == set(SENDERS)


@pytest.mark.parametrize("receiver", SERVERS)
@pytest.mark.parametrize("sender", list(NAMES))
def test_what_a_role_may_not_send_is_refused_by_a_server_of_each_role(
    receiver: Role, sender: Role, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def main(rng: random.Random) -> None:
        async with KeyedCluster(rng) as cluster:
            server = f"{receiver}-1"
            name = NAMES[sender]
            cluster.process_clock(name)
            transport = cluster.transport(name)
            hello = Hello("slotreeve", f"{name}/1" if sender is Role.CLIENT else name, sender, f"{name}@1")
            connection = await transport.connect(
                dialled(transport, server, cluster.address(server)), hello, Silent(), 1.0
            )
            messages = forbidden(receiver, sender)
            assert len(messages) > 20
            before = cluster.servers[server].counters()["unexpected_messages"]
            for message in messages:
                reply = await connection.ask(message, 1.0)
                assert isinstance(reply, Failed), type(message).__name__
                assert reply.code == UNEXPECTED, type(message).__name__
                connection.send(message)
            await cluster.until(
                lambda: cluster.servers[server].counters()["unexpected_messages"] == before + 2 * len(messages),
                "each was refused twice: as a request and as a message",
            )
            assert not connection.closed
            await transport.close()

    run(main)
    assert f"a {sender} may not send" in caplog.text, "and it is noted who was denied what"


@pytest.mark.parametrize("receiver", SERVERS)
@pytest.mark.parametrize("holder", list(Role))
def test_no_key_lets_its_holder_say_that_it_is_of_another_role(receiver: Role, holder: Role) -> None:
    async def main(rng: random.Random) -> None:
        async with KeyedCluster(rng) as cluster:
            server = f"{receiver}-1"
            name = NAMES.get(holder, f"{holder}-9")
            cluster.process_clock(name)
            transport = cluster.transport(name)
            for claimed in set(Role) - SPEAKS_AS[holder]:
                with pytest.raises(Refused, match=f"is that of a {holder}, not of a {claimed}"):
                    await transport.connect(
                        dialled(transport, server, cluster.address(server)),
                        Hello("slotreeve", name, claimed, f"{name}@1"),
                        Silent(),
                        1.0,
                    )
            await transport.close()

    run(main)
