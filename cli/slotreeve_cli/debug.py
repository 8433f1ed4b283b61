"""``slotreeve debug bundle``: one file with what others need to help."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slotreeve_cli.options import DEFAULT_META, ClusterOption, MetaOption, SetOption, read_configuration

if TYPE_CHECKING:
    from slotreeve.ports import Transport

MOST_TOLD = 20_000
Parts = dict[str, bytes]
"""The files of a bundle by name."""


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    group = typer.Typer(help="For those who look for the cause of a problem.", no_args_is_help=True)
    group.callback()(lambda: None)
    group.command(
        "bundle",
        epilog="Examples: slotreeve debug bundle  |  slotreeve debug bundle -c cluster.toml --since 6h --to it.tar.gz",
    )(bundle)
    app.add_typer(group, name="debug")


def bundle(
    to: Annotated[
        Path | None, typer.Option("--to", help="The file, a .tar.gz; by default named after the time.")
    ] = None,
    since: Annotated[str, typer.Option("--since", help="History from when on: 90s, 10m, 2h or 1d ago, 14:05.")] = "1h",
    config: Annotated[
        list[Path],
        typer.Option("--config", "-c", help="Configuration file (TOML) to add, without secrets; repeatable."),
    ] = [],  # noqa: B006 - typer copies it
    settings: SetOption = [],  # noqa: B006 - typer copies it
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
) -> None:
    """Write one file for those who are to help: what the cluster says of itself now, counters, the history of the last
    hour with warnings, errors and alarms of all servers, and configuration files without their secrets. Payloads of
    registrations and values of the provided configuration are not in it. Exit code 1 if something is missing."""
    import time

    from slotreeve_client.tools import asked, run_async

    from slotreeve_cli.times import parse_time

    now_ms = time.time_ns() // 1_000_000
    since_ms = parse_time("--since", since, now_ms)
    path = to if to is not None else Path(f"slotreeve-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.tar.gz")
    parts = _configurations(config, settings)
    parts |= run_async(asked(lambda transport: _gathered(transport, cluster, meta, since_ms)))
    write_bundle(path, parts, now_ms // 1000)
    missing = sorted(name for name in parts if name.endswith(".missing.txt"))
    size = os.path.getsize(path) / 1024
    typer.echo(f"{path}: {len(parts)} files, {size:.0f} KiB; look through it before you send it on")
    for name in missing:
        typer.echo(f"missing: {parts[name].decode().strip()}", err=True)
    if missing:
        raise typer.Exit(1)


def _configurations(files: list[Path], settings: list[str]) -> Parts:
    from slotreeve_cli.config import setting_rows
    from slotreeve_cli.redaction import redacted_rows

    read = [(file.name, read_configuration(file, settings)) for file in files]
    return {
        f"configuration/{number}-{name}.json": encoded(redacted_rows(setting_rows(configuration)))
        for number, (name, configuration) in enumerate(read, 1)
    }


async def _gathered(transport: Transport, cluster: str, metas: list[str], since_ms: int) -> Parts:
    """What the servers tell; a part that cannot be had is a file that says why."""
    from slotreeve.errors import SlotreeveError

    parts: Parts = {"versions.json": encoded(_versions())}
    sources: Mapping[str, Callable[[], Awaitable[Parts]]] = {
        "cluster": lambda: _cluster(transport, cluster, metas),
        "clients": lambda: _clients(transport, cluster, metas),
        "delays": lambda: _delays(transport, cluster, metas),
        "configuration keys": lambda: _keys(transport, cluster, metas),
        "events": lambda: _events(transport, cluster, metas, since_ms),
        "changes": lambda: _changes(transport, cluster, metas, since_ms),
    }
    for name, source in sources.items():
        try:
            parts |= await source()
        except SlotreeveError as error:
            parts[f"{name}.missing.txt"] = f"{name}: {error}\n".encode()
    return parts


async def _cluster(transport: Transport, cluster: str, metas: list[str]) -> Parts:
    from slotreeve_client.condition import cluster_condition
    from slotreeve_client.reports import cluster_report, table_report

    condition = await cluster_condition(transport, cluster, metas)
    parts = {"status.json": encoded(cluster_report(condition)), "counters.json": encoded(condition.held)}
    if condition.view is not None:
        parts["slots.json"] = encoded(table_report(condition.view))
    if condition.orders is not None:
        parts["orders.json"] = condition.orders.encode()
    silent = sorted(name for name, state in condition.states().items() if "does not answer" in state)
    silent += [meta.name for meta in condition.metas if meta.known is None]
    if silent:
        parts["servers.missing.txt"] = f"servers that do not answer: {', '.join(silent)}\n".encode()
    return parts


async def _clients(transport: Transport, cluster: str, metas: list[str]) -> Parts:
    from slotreeve_client.audience import connected_clients
    from slotreeve_client.reports import clients_report

    return {"clients.json": encoded(clients_report(await connected_clients(transport, cluster, metas)))}


async def _delays(transport: Transport, cluster: str, metas: list[str]) -> Parts:
    from slotreeve_client.administration import cluster_view
    from slotreeve_client.delays import cluster_delays, delays_report
    from slotreeve_client.slot_reads import slot_reads

    found = await cluster_delays(transport, cluster, metas)
    reads = await slot_reads(transport, cluster, (await cluster_view(transport, cluster, metas)).data)
    parts = {"delays.json": encoded(delays_report(found)), "slot-reads.json": encoded([*reads.slots.values()])}
    if found.silent:
        parts["delays.missing.txt"] = _silent("delays", found.silent)
    return parts


async def _keys(transport: Transport, cluster: str, metas: list[str]) -> Parts:
    from slotreeve_client.administration import get_configs

    entries = await get_configs(transport, cluster, metas)
    keys = [{"key": e.key, "version": e.version, "bytes": len(e.value or b"")} for e in entries]
    return {"configuration-keys.json": encoded(keys)}


async def _events(transport: Transport, cluster: str, metas: list[str], since_ms: int) -> Parts:
    from slotreeve_client.history import Span, past_events

    past = await past_events(transport, cluster, metas, Span(since_ms), most=MOST_TOLD)
    parts = {"events.jsonl": b"\n".join(event.event for _, event in past.events)}
    if past.silent:
        parts["events.missing.txt"] = _silent("events", past.silent)
    return parts


async def _changes(transport: Transport, cluster: str, metas: list[str], since_ms: int) -> Parts:
    from slotreeve_client.history import Span, past_changes

    past = await past_changes(transport, cluster, metas, "", Span(since_ms), MOST_TOLD)
    lines = [
        {
            "told_by": server,
            "service": row.data_info_id,
            "at_ms": change.at_ms,
            "register_id": change.register_id,
            "is_gone": change.is_gone,
            "version": change.version,
            "session": change.session,
            "reason": change.reason,
            "ends": change.ends,
        }
        for server, row in past.changes
        for change in row.changes
    ]
    parts = {"changes.json": encoded(lines)}
    if past.silent:
        parts["changes.missing.txt"] = _silent("changes", past.silent)
    return parts


def _silent(what: str, silent: Mapping[str, str]) -> bytes:
    told = "; ".join(f"{name} does not tell: {why}" for name, why in sorted(silent.items()))
    return f"{what}: {told}\n".encode()


def _versions() -> dict[str, str]:
    import platform
    from importlib.metadata import distributions

    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        **dict(sorted((each.metadata["Name"], each.version) for each in distributions())),
    }


def encoded(value: object) -> bytes:
    """JSON for people and programs."""
    import msgspec

    return msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=1)


def write_bundle(path: Path, parts: Parts, at: int) -> None:
    """Write the files below a folder named after the bundle, with the time ``at`` (seconds since 1970).

    Raises:
        StorageError: the file cannot be written.
    """
    from slotreeve.errors import StorageError

    folder = path.name.removesuffix(".tar.gz")
    try:
        # What a cluster says of itself is not for everybody on this machine.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
            for name, content in sorted(parts.items()):
                member = tarfile.TarInfo(f"{folder}/{name}")
                member.size, member.mtime = len(content), at
                archive.addfile(member, io.BytesIO(content))
    except OSError as error:
        raise StorageError(f"{path}: the bundle cannot be written: {error.strerror}") from None
