"""``slotreeve provide put|get|watch``: small values that operators write and clients watch."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slotreeve_cli.options import (
    DEFAULT_META,
    DEFAULT_SESSION,
    NOT_FOUND,
    ClusterOption,
    GatewayOption,
    MetaOption,
    Rows,
    RowsOption,
    SessionOption,
    TokenFileOption,
)
from slotreeve_cli.printed_changes import PrintedChanges

if TYPE_CHECKING:
    from slotreeve_client import ConfigWatch
    from slotreeve_protocol.meta_messages import ConfigEntry

    from slotreeve_cli.through_gateway import ThroughGateway

KeyArgument = Annotated[str, typer.Argument(help="The key.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="Provided configuration, kept by the meta servers, pushed to clients that watch it.")
    group.command(
        "put",
        epilog="Examples: slotreeve provide put limits.rate 100  |  slotreeve provide put limits.rate 200 "
        "--expected-version 1  |  slotreeve provide put routes --file routes.json  |  "
        "slotreeve provide put limits.rate --delete",
    )(put)
    group.command("get", epilog="Examples: slotreeve provide get limits.rate  |  slotreeve provide get -o json")(get)
    group.command("watch", epilog="Example: slotreeve provide watch limits.rate routes -o json")(watch)
    app.add_typer(group, name="provide", no_args_is_help=True)


def put(
    key: KeyArgument,
    value: Annotated[str | None, typer.Argument(help="The value, as text; - reads standard input.")] = None,
    file: Annotated[Path | None, typer.Option("--file", help="Take the value from this file.")] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the key.")] = False,
    expected_version: Annotated[
        int | None, typer.Option(min=0, help="Only if this is the stored version; 0: only if there never was one.")
    ] = None,
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    gateway: GatewayOption = "",
    token_file: TokenFileOption = None,
    output: RowsOption = Rows.TABLE,
) -> None:
    """Write KEY through the meta leader. Returns when any minority of the meta servers may be lost."""
    from slotreeve.errors import ConfigError
    from slotreeve_client.tools import run_async
    from slotreeve_protocol.meta_messages import ConfigEntry

    from slotreeve_cli.through_gateway import gateway_of

    if (value is not None) + (file is not None) + delete != 1:
        raise typer.BadParameter("give exactly one of VALUE, --file and --delete")
    if value == "-":
        data: bytes | None = sys.stdin.buffer.read()
    elif value is not None:
        data = os.fsencode(value)
    elif file is not None:
        try:
            data = file.read_bytes()
        except OSError as error:
            raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    else:
        data = None
    through = gateway_of(gateway, token_file)
    if through is None:
        stored = run_async(_put(meta, cluster, key, data, expected_version))
    else:
        stored = ConfigEntry(key, data, through.write(key, data, expected_version).version)
    _print([stored], output)


async def _put(
    addresses: list[str], cluster: str, key: str, value: bytes | None, expected_version: int | None
) -> ConfigEntry:
    from slotreeve_client.administration import put_config
    from slotreeve_client.tools import open_transport

    transport = open_transport()
    try:
        return await put_config(transport, cluster, addresses, key, value, expected_version)
    finally:
        await transport.close()


def get(
    key: Annotated[str, typer.Argument(help="The key; none: all of them.")] = "",
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    gateway: GatewayOption = "",
    token_file: TokenFileOption = None,
    output: RowsOption = Rows.TABLE,
) -> None:
    """KEY's value and version, or all keys. Exit code 3 where there is none. A gateway shows no values of slotreeve's
    own keys."""
    from slotreeve_client.tools import run_async

    from slotreeve_cli.through_gateway import gateway_of

    through = gateway_of(gateway, token_file)
    entries = run_async(_get(meta, cluster, key)) if through is None else _get_through(through, key)
    _print(entries, output)
    if key and not entries:
        raise typer.Exit(NOT_FOUND)


async def _get(addresses: list[str], cluster: str, key: str) -> list[ConfigEntry]:
    from slotreeve_client.administration import get_configs
    from slotreeve_client.tools import open_transport

    transport = open_transport()
    try:
        entries = await get_configs(transport, cluster, addresses, key)
    finally:
        await transport.close()
    return [entry for entry in entries if not key or entry.key == key]


def _get_through(gateway: ThroughGateway, key: str) -> list[ConfigEntry]:
    from slotreeve.errors import NotThere
    from slotreeve_protocol.meta_messages import ConfigEntry

    entries: list[ConfigEntry] = []
    keys = gateway.keys()
    for name, version in [(one.key, one.version) for one in keys if one.is_own and key in ("", one.key)]:
        entries.append(ConfigEntry(name, None, version))
    for name in [one.key for one in keys if not one.is_own and key in ("", one.key)]:
        try:
            said = gateway.value(name)
        except NotThere:
            continue  # it was deleted meanwhile
        value = said.base64 if said.value is None else said.value.encode()
        entries.append(ConfigEntry(name, value, said.version))
    return sorted(entries, key=lambda entry: entry.key)


def watch(
    keys: Annotated[list[str], typer.Argument(metavar="KEY...", help="The keys.")],
    session: SessionOption = [DEFAULT_SESSION],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    updates: Annotated[int | None, typer.Option(min=1, help="End after so many updates.")] = None,
    seconds: Annotated[float | None, typer.Option("--for", min=0, help="End after so many seconds.")] = None,
    output: RowsOption = Rows.TABLE,
) -> None:
    """Print each KEY's value, now and at every change, until Ctrl-C. It ends where none is shown."""
    from slotreeve_client.tools import run_async

    run_async(_watch(session, cluster, keys, updates, seconds, output))


async def _watch(
    sessions: list[str], cluster: str, keys: list[str], updates: int | None, seconds: float | None, output: Rows
) -> None:
    import asyncio

    from slotreeve_client.tools import open_client
    from slotreeve_protocol.meta_messages import ConfigEntry

    from slotreeve_cli.publish import refused_all, wait_for
    from slotreeve_cli.run import stop_requested

    stopping = stop_requested(until_eof=False)
    printed = PrintedChanges(updates, stopping)

    def changed(watched: ConfigWatch) -> None:
        printed.add(lambda: _print([ConfigEntry(watched.key, watched.value, watched.version)], output))

    async with open_client(sessions, cluster) as client:
        made = [client.watch_config(key, changed) for key in keys]
        refusal = asyncio.create_task(refused_all((each.ready() for each in made), stopping))
        try:
            await wait_for(stopping, seconds)
        finally:
            refusal.cancel()
        printed.check()
        if refusal.done() and (error := refusal.result()) is not None:
            raise error


def _print(entries: list[ConfigEntry], output: Rows) -> None:
    from slotreeve_cli.printing import print_rows

    rows: list[dict[str, object]] = [
        {
            "key": entry.key,
            "version": entry.version,
            "value": None if entry.value is None else entry.value.decode("utf-8", "backslashreplace"),
        }
        for entry in entries
    ]
    print_rows(rows, output, empty="no such configuration")
    sys.stdout.flush()
