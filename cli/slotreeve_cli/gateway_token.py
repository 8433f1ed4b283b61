"""``slotreeve gateway token``: who may do what through the gateways."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from slotreeve_cli.options import DEFAULT_META, NOT_FOUND, ClusterOption, MetaOption, Rows, RowsOption

if TYPE_CHECKING:
    from slotreeve_protocol.tokens import Tokens

DAY_MS = 24 * 60 * 60 * 1000
NameArgument = Annotated[str, typer.Argument(help="The name of the token, for people and the log.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        help="Tokens that callers show to gateways (gateway.authentication). Every gateway follows a change at once."
    )
    group.command(
        "issue",
        epilog="Examples: slotreeve gateway token issue dashboard --right 'read:*'  |  slotreeve gateway token issue "
        "greeter --right register:com.example.Greeter --right 'read:com.example.*' --days 90 --note 'team A'",
    )(issue)
    group.command("list", epilog="Examples: slotreeve gateway token list  |  slotreeve gateway token list -o json")(
        list_
    )
    group.command("revoke", epilog="Example: slotreeve gateway token revoke greeter")(revoke)
    app.add_typer(group, name="token", no_args_is_help=True)


def issue(
    name: NameArgument,
    right: Annotated[
        list[str],
        typer.Option(
            "--right",
            help="read:PATTERN, register:PATTERN or operate:PATTERN; PATTERN is a data id with * for any characters. "
            "May be given several times.",
        ),
    ],
    days: Annotated[
        float | None,
        typer.Option("--days", min=0.001, max=36_500, help="It ends after so many days; else when revoked."),
    ] = None,
    note: Annotated[str, typer.Option("--note", help="What it is for.")] = "",
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
) -> None:
    """Issue a token and print it. This is the only time that it is shown: the cluster keeps a hash of it."""
    import secrets
    import time

    from slotreeve_client.tools import run_async
    from slotreeve_protocol.tokens import Token, new_token

    now = time.time_ns() // 1_000_000
    text, token_id, secret_hash = new_token(secrets.token_bytes)
    ends_ms = now + int(days * DAY_MS) if days is not None else None
    token = Token(name, secret_hash, tuple(right), now, ends_ms, note)
    run_async(_change(meta, cluster, lambda tokens: tokens.issued(token_id, token)))
    typer.echo(text)


def list_(
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    output: RowsOption = Rows.TABLE,
) -> None:
    """Every token without its secret: rights, when it was issued and when it ends."""
    import time

    from slotreeve_client.tools import run_async

    from slotreeve_cli.printing import print_rows

    now = time.time_ns() // 1_000_000
    tokens = run_async(_change(meta, cluster, lambda tokens: tokens))
    rows: list[dict[str, object]] = [
        {
            "name": token.name,
            "id": token_id,
            "rights": list(token.rights) if output is Rows.JSON else " ".join(token.rights),
            "issued": _time(token.issued_ms),
            "ends": _time(token.ends_ms),
            "has ended": token.has_ended(now),
            "note": token.note,
        }
        for token_id, token in sorted(tokens.by_id.items(), key=lambda item: item[1].name)
    ]
    print_rows(rows, output, empty="there are no tokens")


def revoke(
    name: NameArgument,
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
) -> None:
    """End a token now. Exit code 3 where there is none of this name."""
    from slotreeve_client.tools import run_async

    was_there = False

    def change(tokens: Tokens) -> Tokens:
        nonlocal was_there
        after = tokens.revoked(name)
        was_there = after != tokens
        return after

    run_async(_change(meta, cluster, change))
    if not was_there:
        typer.echo(f"there is no token {name}")
        raise typer.Exit(NOT_FOUND)
    typer.echo(f"revoked: {name}")


def _time(wall_ms: int | None) -> str | None:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(wall_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if wall_ms is not None else None


async def _change(metas: list[str], cluster: str, change: Callable[[Tokens], Tokens]) -> Tokens:
    from slotreeve_client.administration import change_tokens
    from slotreeve_client.tools import open_transport

    transport = open_transport()
    try:
        return await change_tokens(transport, cluster, metas, change)
    finally:
        await transport.close()
