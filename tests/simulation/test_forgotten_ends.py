"""Ends of registrations that no server knows any more, found in the servers themselves."""

from __future__ import annotations

import pytest
from slotreeve.model.data_info import DataInfo
from slotreeve_servers.data.server import DataServer
from slotreeve_simulator.clients_watch import Registration
from slotreeve_simulator.forgotten_ends import ForgottenEnds

from tests.simulation.test_injector import Scene, play

SERVICE = "service-of-its-own"


def copies(scene: Scene, register_id: str) -> dict[str, bool]:
    """The data servers that have the registration; True for the leader of its slot."""
    found = {}
    for name, server in scene.cluster.servers.items():
        if isinstance(server, DataServer):
            for held in server.core.slots.held.values():
                if register_id in held.store.services.get(DataInfo(SERVICE).id, {}):
                    found[name] = held.leads
    return found


@pytest.mark.parametrize("also_the_session_server", [False, True])
def test_an_end_is_forgotten_once_all_servers_have_died_that_knew_of_it(also_the_session_server: bool) -> None:
    async def story(scene: Scene) -> None:
        cluster, ends = scene.cluster, ForgottenEnds(scene.cluster)
        client = cluster.clients["client-1"]
        publication = client.publish(SERVICE, b"x")
        registration = Registration(0, "client-1", SERVICE, publication)
        await cluster.until(lambda: len(copies(scene, publication.register_id)) == 2, "two copies", 5.0, 0.01)
        (leader,) = [name for name, leads in copies(scene, publication.register_id).items() if leads]
        cluster.network.partition(["data-1"], ["data-2"])
        publication.unpublish()
        await cluster.until(lambda: registration.has_ended, "the end is acknowledged", 5.0, 0.01)
        ends.look([registration])
        assert not registration.is_end_forgotten
        cluster.kill(leader)
        (session,) = [n for n in ("session-1", "session-2") if cluster.address(n) == client.server]
        if also_the_session_server:
            cluster.kill(session)
        ends.look([registration])
        assert registration.is_end_forgotten is also_the_session_server
        cluster.network.heal()
        for name in (leader, session) if also_the_session_server else (leader,):
            await cluster.start(name)

    play(story)
