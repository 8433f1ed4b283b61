"""``slotreeve election swap|in-use``: another election back-end for a running cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from slotreeve_cli.options import DEFAULT_META, ClusterOption, MetaOption, Rows, RowsOption

if TYPE_CHECKING:
    from slotreeve_protocol.meta_messages import ElectionIs, Swapped

EPILOG = (
    "Examples: slotreeve election swap --to postgres --dry-run  |  slotreeve election swap --to postgres  |  "
    "slotreeve election swap --to fle"
)
ToOption = Annotated[str, typer.Option("--to", help="The election to use from now on, as in election.use.")]
WithoutOption = Annotated[
    list[str],
    typer.Option("--without", help="Name of a meta server that is gone for good and is not asked. Repeatable."),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only find out whether every meta server could.")]


def add_to(group: typer.Typer) -> None:
    """Add the commands."""
    group.command("swap", epilog=EPILOG)(swap)
    group.command("in-use", epilog="Example: slotreeve election in-use -o json")(in_use)


def swap(
    to: ToOption,
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    dry_run: DryRunOption = False,
    without: WithoutOption = [],  # noqa: B006 - typer copies it
    output: RowsOption = Rows.TABLE,
) -> None:
    """Let a running cluster use another election, with the meta state that it has. The configuration file of every
    meta server must have that election's options. What cannot be done is refused before anything changes."""
    from slotreeve_client.tools import run_async

    from slotreeve_cli.printing import print_rows

    swapped, found = run_async(_swap(to, meta, cluster, dry_run, without))
    row = {"from": swapped.came_from, "to": swapped.to, "keys": swapped.keys}
    if dry_run:
        print_rows([{**row, "swap": "possible"}], output)
        return
    print_rows([{**row, "swap": swapped.generation, "no writes for, s": round(swapped.seconds, 3)}], output)
    wrong = [is_.node for is_ in found.values() if is_.configured != to]
    if wrong:
        typer.echo(f'now change the configuration of {", ".join(wrong)}: [election] use = "{to}"', err=True)


def in_use(
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    output: RowsOption = Rows.TABLE,
) -> None:
    """The election that each of these meta servers uses, and the one that its configuration names. Exit code 1 where
    two of them use different ones."""
    from slotreeve_client.tools import run_async

    from slotreeve_cli.printing import print_rows

    found = run_async(_in_use(meta, cluster))
    rows: list[dict[str, object]] = [
        {
            "meta": address,
            "uses": is_.use,
            "configured": is_.configured,
            "swaps": is_.generation,
            "leader": is_.leader,
            "term": is_.term,
        }
        for address, is_ in found.items()
    ]
    print_rows(rows, output)
    if len({is_.use for is_ in found.values()}) > 1:
        raise typer.Exit(1)


async def _swap(
    to: str, addresses: list[str], cluster: str, dry_run: bool, without: list[str]
) -> tuple[Swapped, dict[str, ElectionIs]]:
    from slotreeve_client.election_swap import all_use, elections_in_use, swap_election
    from slotreeve_client.tools import open_transport

    transport = open_transport()
    try:
        swapped = await swap_election(transport, cluster, addresses, to, dry_run, without)
        if dry_run:
            return swapped, {}
        waited_for = await elections_in_use(transport, cluster, addresses) if without else addresses
        return swapped, await all_use(transport, cluster, waited_for, to)
    finally:
        await transport.close()


async def _in_use(addresses: list[str], cluster: str) -> dict[str, ElectionIs]:
    from slotreeve_client.election_swap import elections_in_use
    from slotreeve_client.tools import open_transport

    transport = open_transport()
    try:
        return await elections_in_use(transport, cluster, addresses)
    finally:
        await transport.close()
