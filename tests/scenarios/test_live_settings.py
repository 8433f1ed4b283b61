"""Settings that an operator changes while servers run, on whole clusters."""

from __future__ import annotations

import asyncio
import random

import pytest
from slotreeve.errors import ClientError, ModelError
from slotreeve_client.administration import change_settings, put_config
from slotreeve_client.setting_reports import SettingsReport, settings_in_force
from slotreeve_conformance.virtual_time import run
from slotreeve_protocol.live_settings import SETTINGS_KEY, Value
from slotreeve_servers.settings import Settings
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_transport_memory.transport import MemoryTransport


class Settler:
    """An operator who changes settings from a process of its own."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._transport = MemoryTransport(cluster.process_clock("operator"), "operator", cluster.network)
        self._metas = [cluster.address(f"meta-{number}") for number in (1, 2, 3)]

    async def set(self, name: str, value: Value | None) -> None:
        await change_settings(self._transport, "slotreeve", self._metas, lambda table: table.changed(name, value))

    async def write(self, value: bytes | None) -> None:
        """What another version might write."""
        await put_config(self._transport, "slotreeve", self._metas, SETTINGS_KEY, value)

    async def report(self) -> SettingsReport:
        return await settings_in_force(self._transport, "slotreeve", self._metas)

    async def follow(self, name: str, value: Value) -> None:
        """Wait until every server that has this setting follows."""
        section, _, key = name.partition(".")

        def settings() -> dict[str, Settings]:
            return {name: server.settings_in_force.settings for name, server in self._cluster.servers.items()}

        def follow() -> bool:
            return all(
                getattr(getattr(found, section), key) == value
                for server, found in settings().items()
                if section in (server.partition("-")[0], "log")
            )

        await self._cluster.until(follow, f"{name} is {value}")


def test_every_role_follows_a_change_within_a_heartbeat_and_a_removal() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            operator = Settler(cluster)
            for name, value, default in (
                ("meta.arrange_seconds", 2.0, 1.0),
                ("data.brake_few", 5, 64),
                ("session.linger_seconds", 9.0, 0.3),
                ("log.level", "error", "info"),
            ):
                await operator.set(name, value)
                began = cluster.clock("data-1").now()
                await operator.follow(name, value)
                assert cluster.clock("data-1").now() - began < 1.5
                rows = [row for row in (await operator.report()).settings if row.name == name]
                assert [(row.value, row.live, row.configured, row.origin) for row in rows] == [
                    (value, True, default, "default")
                ]
                await operator.set(name, None)
                await operator.follow(name, default)
            await operator.set("gateway.idle_seconds", 9.0)  # no gateway is there
            await asyncio.sleep(2)
            report = await operator.report()
            assert (report.ignored, report.silent) == ([], {})
            (row,) = [row for row in report.settings if row.live]
            assert (row.name, row.value, row.configured, row.servers) == ("gateway.idle_seconds", 9.0, None, [])
            await operator.set("gateway.idle_seconds", None)
            await asyncio.sleep(2)
            report = await operator.report()
            assert not any(row.live for row in report.settings)

    run(scenario, seed=1)


def test_changes_survive_restarts_and_another_meta_leader() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            operator = Settler(cluster)
            await operator.set("data.brake_few", 5)
            await operator.set("session.push_window_seconds", 0.5)
            await operator.set("meta.protect_below", 2)
            leader = cluster.leader
            assert leader is not None
            cluster.kill(leader)
            await cluster.until(lambda: cluster.leader not in (None, leader), "another one leads")
            for name in ("data-1", "session-1"):
                cluster.kill(name)
                await cluster.start(name)
            await cluster.start(leader)
            await operator.follow("data.brake_few", 5)
            await operator.follow("session.push_window_seconds", 0.5)
            await operator.follow("meta.protect_below", 2)

    run(scenario, seed=2)


def test_the_meta_leader_refuses_what_is_out_of_bounds_or_unknown_in_words() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            operator = Settler(cluster)
            with pytest.raises(ModelError, match=r"data\.brake_share is 3; expected 0 to 1"):
                await operator.set("data.brake_share", 3)
            for value, said in (
                (b'{"data.brake_share":3}', r"data\.brake_share is 3; expected 0 to 1"),
                (b'{"data.colour":3}', r"no setting 'data\.colour' can be changed"),
                (b"[]", "slotreeve settings writes it"),
            ):
                with pytest.raises(ClientError, match=said):
                    await operator.write(value)
            assert (await operator.report()).version == 0

    run(scenario, seed=3)


def test_a_server_ignores_what_it_does_not_know_and_an_operator_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The meta leader of a newer version lets it pass."""

    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            operator = Settler(cluster)
            with monkeypatch.context() as newer:
                newer.setattr("slotreeve_servers.meta.configuration.check_settings_change", lambda before, after: None)
                await operator.write(b'{"data.colour":"red","data.brake_few":5,"data.brake_share":9}')
            await operator.follow("data.brake_few", 5)
            report = await operator.report()
            assert [row.value for row in report.settings if row.name == "data.brake_share"] == [0.2]
            assert any("data-1: the setting data.brake_share is 9" in said for said in report.ignored)
            assert any("session-1: no setting 'data.colour'" in said for said in report.ignored)
            await operator.set("data.brake_few", 6)  # what is odd in the table hinders nobody
            await operator.follow("data.brake_few", 6)
            await operator.set("data.colour", None)

    run(scenario, seed=4)


def test_a_window_of_pushes_holds_from_the_next_push_on() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            operator = Settler(cluster)
            publication = cluster.client("session-1").publish("pace", "0")
            await publication.acknowledged()
            seen: list[float] = []
            clock = cluster.clock("session-2")
            watched = cluster.client("session-2").subscribe("pace", lambda _: seen.append(clock.now()))
            await watched.ready()

            async def pushes_of_ten_seconds() -> int:
                seen.clear()
                for number in range(100):
                    publication.republish(str(number))
                    await asyncio.sleep(0.1)
                return len(seen)

            assert await pushes_of_ten_seconds() > 50
            await operator.set("session.push_window_seconds", 2.0)
            await operator.set("session.push_ceiling_seconds", 2.0)
            await operator.follow("session.push_ceiling_seconds", 2.0)
            await asyncio.sleep(2)
            assert await pushes_of_ten_seconds() < 10
            await operator.set("session.push_window_seconds", None)
            await operator.follow("session.push_window_seconds", 0.002)
            await asyncio.sleep(2)
            assert await pushes_of_ten_seconds() > 50

    run(scenario, seed=5)


def test_protection_begins_and_ends_at_once() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, data=3) as cluster:
            operator = Settler(cluster)
            await operator.set("meta.protect_below", 3)
            await operator.follow("meta.protect_below", 3)
            epoch = cluster.session("session-1").view.table.epoch
            cluster.kill("data-3")
            await asyncio.sleep(20)
            assert cluster.session("session-1").view.table.epoch == epoch
            await operator.set("meta.protect_below", None)
            await cluster.until(
                lambda: all(slot.leader != "data-3" for slot in cluster.session("session-1").view.table.slots),
                "its slots are led by others",
            )

    run(scenario, seed=6)


def test_the_brake_lets_go_as_soon_as_its_limits_are_raised() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, settings={"data.brake_few": 2, "data.brake_hold_seconds": 600.0}) as cluster:
            operator = Settler(cluster)
            clients = [cluster.client("session-1", name=f"many-{number}") for number in range(20)]
            for client in clients:
                await client.publish("held", client.client_id).acknowledged()
            looker = cluster.client("session-2")
            for number in range(10):
                cluster.kill(f"many-{number}")
            await asyncio.sleep(60)
            assert len(await looker.get("held")) == 20
            await operator.set("data.brake_few", 1_000)

            for _ in range(100):
                if len(await looker.get("held")) == 10:
                    break
                await asyncio.sleep(0.1)
            assert len(await looker.get("held")) == 10

    run(scenario, seed=7)
