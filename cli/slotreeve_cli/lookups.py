"""``slotreeve get`` and ``slotreeve ls``: look once."""

from __future__ import annotations

from typing import Annotated

import typer

from slotreeve_cli.options import DEFAULT_SESSION, NOT_FOUND, ClusterOption, Rows, RowsOption, SessionOption


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("get", epilog="Example: slotreeve get com.example.Greeter -o json")(get)
    app.command("ls", epilog="Examples: slotreeve ls  |  slotreeve ls com.example.")(ls)


def get(
    service: Annotated[str, typer.Argument(help="The service: a data id, or a whole data info id.")],
    session: SessionOption = [DEFAULT_SESSION],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    output: RowsOption = Rows.TABLE,
) -> None:
    """Print the providers of SERVICE, as the leader of its slot has them now. Exit code 3 where there are none."""
    from slotreeve_client.tools import run_async

    run_async(_get(session, cluster, service, output))


async def _get(sessions: list[str], cluster: str, service: str, output: Rows) -> None:
    from slotreeve_client.tools import open_client

    from slotreeve_cli.instances import provider_row, provider_table
    from slotreeve_cli.printing import print_rows

    async with open_client(sessions, cluster) as client:
        providers = await client.get(service)
    rows = list(map(provider_row, providers)) if output is Rows.JSON else provider_table(providers)
    print_rows(rows, output, empty=f"{service} has no providers", only_wide=("register_id",))
    if not rows:
        raise typer.Exit(NOT_FOUND)


def ls(
    prefix: Annotated[str, typer.Argument(help="Only services whose id starts with this.")] = "",
    session: SessionOption = [DEFAULT_SESSION],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    output: RowsOption = Rows.TABLE,
) -> None:
    """The services that have providers, with their number."""
    from slotreeve_client.tools import run_async

    run_async(_ls(session, cluster, prefix, output))


async def _ls(sessions: list[str], cluster: str, prefix: str, output: Rows) -> None:
    from slotreeve_client.tools import open_client

    from slotreeve_cli.printing import print_rows, service_name

    async with open_client(sessions, cluster) as client:
        counts = await client.list(prefix)
    name = str if output is Rows.JSON else service_name
    rows: list[dict[str, object]] = [{"service": name(each), "providers": counts[each]} for each in sorted(counts)]
    print_rows(rows, output, empty="no services")
