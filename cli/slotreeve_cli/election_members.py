"""``slotreeve election members list``: the meta servers, where they are, and which of them take part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from slotreeve_cli.options import (
    DEFAULT_META,
    ClusterOption,
    GatewayOption,
    MetaOption,
    Rows,
    RowsOption,
    TokenFileOption,
)

if TYPE_CHECKING:
    from slotreeve_protocol.meta_messages import ElectionIs


def add_to(group: typer.Typer) -> None:
    """Add the group."""
    members = typer.Typer(no_args_is_help=True, help="The meta servers of the cluster.")
    members.command("list", epilog="Example: slotreeve election members list -o json")(list_members)
    group.add_typer(members, name="members")


def list_members(
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    gateway: GatewayOption = "",
    token_file: TokenFileOption = None,
    output: RowsOption = Rows.TABLE,
) -> None:
    """The meta servers, at the addresses that the leader knows. Exit code 1 where one of them does not answer, or knows
    no leader."""
    from slotreeve_client.tools import run_async

    from slotreeve_cli.printing import print_rows
    from slotreeve_cli.through_gateway import ElectionSaid, gateway_of

    through = gateway_of(gateway, token_file)
    if through is None:
        members, found = run_async(_found(meta, cluster))
        rows = [_row(name, address, found.get(address)) for name, address in sorted(members.items())]
    else:
        metas = sorted(through.read("election", ElectionSaid).meta_servers, key=lambda one: one.name)
        rows = [
            {
                "member": one.name,
                "address": one.address,
                "answers": one.state != "does not answer",
                "leader": one.leader,
                "term": one.term,
            }
            for one in metas
        ]
    print_rows(rows, output)
    if not all(row["leader"] for row in rows):
        raise typer.Exit(1)


def _row(name: str, address: str, found: ElectionIs | None) -> dict[str, object]:
    return {
        "member": name,
        "address": address,
        "answers": found is not None and found.node == name,
        "leader": None if found is None else found.leader,
        "term": None if found is None else found.term,
    }


async def _found(addresses: list[str], cluster: str) -> tuple[dict[str, str], dict[str, ElectionIs]]:
    """The members by name, and what each of them replied by its address."""
    from slotreeve.errors import ClientError
    from slotreeve_client.election_swap import elections_in_use
    from slotreeve_client.tools import open_transport

    transport = open_transport()
    try:
        asked = await elections_in_use(transport, cluster, addresses)
        # The leader is connected to every member; the newest term is what it or its followers know.
        newest = max(asked.values(), key=lambda found: (found.term, found.node == found.leader))
        if not newest.members:
            raise ClientError(f"{newest.node} has an older version, which does not list the members")
        return newest.members, await elections_in_use(transport, cluster, newest.members.values())
    finally:
        await transport.close()
