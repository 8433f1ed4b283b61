"""``slotreeve explain staleness``: how long dead clients and servers stay visible, for a given configuration."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Annotated

import typer

from slotreeve_cli.options import ConfigOption, Rows, RowsOption, SetOption, dotted, read_configuration

if TYPE_CHECKING:
    from slotreeve.offers import Options
    from slotreeve_servers.settings import Settings

PUSH_ALLOWANCE_SECONDS = 0.2
"""For everything that is not waiting: noticing a closed connection, messages, comparing digests, callbacks."""
LEASE_LOOKS = 3
"""The leader finds a lease at the second look after its end, and may end it at the next one."""
ELECTION_ALLOWANCE_SECONDS = 0.3
"""For the election once the lease is over."""


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="Bounds that follow from the configuration.", no_args_is_help=True)
    group.callback()(lambda: None)
    group.command(
        "staleness",
        epilog="Examples: slotreeve explain staleness -c cluster.toml  |  "
        "slotreeve explain staleness --measure -o json",
    )(staleness)
    app.add_typer(group, name="explain")


def staleness(
    config: ConfigOption = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Also start a cluster with these settings and kill one of each.")
    ] = False,
    output: RowsOption = Rows.TABLE,
    settings: SetOption = [],  # noqa: B006 - typer copies it
) -> None:
    """For each kind of death: the longest time until no subscriber sees the dead client or server any more (or until
    work continues), the settings that add up to it, and with --measure the time it took on this machine."""
    from slotreeve.catalogue import Catalogue
    from slotreeve.offers import Port

    from slotreeve_cli.printing import print_rows

    configuration = read_configuration(config, settings)
    measured = _measure(dotted(settings)) if measure else {}
    rows: list[dict[str, object]] = []
    election = configuration.check_plugins(Catalogue.load())[Port.ELECTION]
    for what, seconds, made_of in [*bounds(configuration.settings), *leader_bounds(configuration.settings, election)]:
        row: dict[str, object] = {"what": what, "at most, s": round(seconds, 2), "made of": made_of}
        if measure:
            row["measured, s"] = measured.get(what)
        rows.append(row)
    print_rows(rows, output)


def bounds(settings: Settings) -> list[tuple[str, float, str]]:
    """(what happens, seconds, which settings add up to that)."""
    from slotreeve_servers.data.core import UPKEEP_SECONDS as LOOK_SECONDS
    from slotreeve_servers.data.endings.ending import DRIFT
    from slotreeve_servers.node.membership import LEASE_HEARTBEATS
    from slotreeve_servers.session.clients.leases import HERD, HERD_LEASES, RENEWALS
    from slotreeve_servers.session.core import sweep_seconds

    session, data, meta = settings.session, settings.data, settings.meta
    push = PUSH_ALLOWANCE_SECONDS
    return [
        ("client closed", push, "its message"),
        *(killed_client(settings, *circumstances) for circumstances in product((False, True), repeat=3)),
        (
            "client killed after it gave a silent session server up, before it reached another",
            session.client_lease_seconds + data.session_grace_seconds + push,
            "session.client_lease_seconds, data.session_grace_seconds",
        ),
        (
            "very many clients lost at once (more than data.brake_few, and data.brake_share of a service)",
            data.brake_hold_seconds + data.session_grace_seconds + push,
            "data.brake_hold_seconds, data.session_grace_seconds",
        ),
        (
            "lease not renewed, after its time to live and 2 % of it",
            meta.heartbeat_seconds + LEASE_LOOKS * LOOK_SECONDS + push,
            f"meta.heartbeat_seconds, {LEASE_LOOKS} x {LOOK_SECONDS:g} s",
        ),
        (
            "lease not renewed after the leader of its slot changed, after its time to live and 2 % of it",
            (1 + LEASE_HEARTBEATS * DRIFT) * meta.heartbeat_seconds + LEASE_LOOKS * LOOK_SECONDS + push,
            f"{1 + LEASE_HEARTBEATS} x meta.heartbeat_seconds, {LEASE_LOOKS} x {LOOK_SECONDS:g} s",
        ),
        (
            "very many leases not renewed at once (more than data.brake_few, and data.brake_share of a "
            "service), or none renewed at all, after their time to live and 2 % of it",
            data.brake_hold_seconds + LEASE_LOOKS * LOOK_SECONDS + push,
            f"data.brake_hold_seconds, {LEASE_LOOKS} x {LOOK_SECONDS:g} s",
        ),
        ("client frozen", session.client_lease_seconds + sweep_seconds(session) + push, "session.client_lease_seconds"),
        (
            "client frozen, where a session server has very many, who ping less often",
            (1 + 1 / RENEWALS) * session.client_lease_seconds + sweep_seconds(session) + push,
            f"{1 + 1 / RENEWALS:.2f} x session.client_lease_seconds",
        ),
        (
            f"client frozen while a herd comes or goes ({HERD} clients or more)",
            (1 + HERD_LEASES) * session.client_lease_seconds + sweep_seconds(session) + push,
            f"{1 + HERD_LEASES} x session.client_lease_seconds",
        ),
        (
            "session server killed, with its clients",
            meta.lost_connection_seconds + data.session_grace_seconds + 0.25 + push,
            "meta.lost_connection_seconds, data.session_grace_seconds",
        ),
        (
            "session server killed, with some of its clients",
            meta.lost_connection_seconds + 4 * data.session_grace_seconds + 0.25 + push,
            "meta.lost_connection_seconds, 4 x data.session_grace_seconds",
        ),
        (
            "session server frozen, with its clients",
            meta.lease_seconds + data.session_grace_seconds + 0.25 + push,
            "meta.lease_seconds, data.session_grace_seconds",
        ),
        ("data server killed, until readable", meta.lost_connection_seconds + push, "meta.lost_connection_seconds"),
        ("data server frozen, until readable", meta.lease_seconds + push, "meta.lease_seconds"),
    ]


def killed_client(settings: Settings, frozen: bool, leaderless: bool, herd: bool) -> tuple[str, float, str]:
    """The row of a client that is killed.

    Before its registrations go, every session server is asked for what is on its way from it; a round of questions ends
    after the grace at the latest, and the next one begins then.

    Args:
        frozen: another session server is frozen. It does not answer a round, after which the client has the grace,
            and another round follows. The meta leader has removed the frozen server by then, if one leads.
        leaderless: no meta server leads. No view is current then, so each round lasts its whole time.
        herd: many other clients are lost within two graces. Each has the grace more; rounds for the others may be
            under way when one is needed.
    """
    from slotreeve_servers.data.endings.presence import FEW_CLIENTS

    grace, linger = settings.data.session_grace_seconds, settings.session.linger_seconds
    is_removed = not leaderless and settings.meta.lease_seconds <= 2 * grace
    rounds = (1 if is_removed else 2) if frozen else int(leaderless)
    graces = rounds * (1 + herd) + frozen + herd
    while_ = [
        *["another session server is frozen"] * frozen,
        *["no meta server leads"] * leaderless,
        *[f"more than {FEW_CLIENTS} others are lost within {2 * grace:g} s"] * herd,
    ]
    seconds = linger + graces * grace + 0.25 * (frozen or herd) + PUSH_ALLOWANCE_SECONDS
    made_of = ["session.linger_seconds"]
    if graces:
        made_of.append(f"{graces} x data.session_grace_seconds" if graces > 1 else "data.session_grace_seconds")
    return f"client killed{' while ' * bool(while_)}{' and '.join(while_)}", seconds, ", ".join(made_of)


def leader_bounds(settings: Settings, election: Options) -> list[tuple[str, float, str]]:
    """The same for the meta leader, where its election has a lease. Publishing and pushing continue meanwhile."""
    lease_ms = getattr(election, "lease_ms", None)
    if lease_ms is None:
        return []
    made_of = f"election.{settings.election.use}.lease_ms; publishing and pushing continue"
    return [
        ("meta leader killed or frozen, until another leads", lease_ms / 1000 + ELECTION_ALLOWANCE_SECONDS, made_of)
    ]


def _measure(settings: dict[str, object]) -> dict[str, float]:
    import tempfile
    from pathlib import Path

    from slotreeve_bench.failover import measure_failover
    from slotreeve_client.tools import open_transport, run_async
    from slotreeve_harness.processes import LocalCluster

    async def measured() -> dict[str, dict[str, float]]:
        transport = open_transport(cluster.transport)
        try:
            with cluster:
                await cluster.ready(transport)
                return await measure_failover(cluster, kills=1)  # type: ignore[return-value]
        finally:
            await transport.close()

    with tempfile.TemporaryDirectory(prefix="slotreeve-explain-") as directory:
        cluster = LocalCluster(Path(directory), settings=settings)
        figures = run_async(measured())
    return {
        "client killed": round(figures["client_ms"]["max"] / 1000, 2),
        "data server killed, until readable": round(figures["data_server_ms"]["max"] / 1000, 2),
        "meta leader killed or frozen, until another leads": round(figures["meta_leader_ms"]["max"] / 1000, 2),
    }
