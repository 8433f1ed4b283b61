"""``slotreeve snapshot save|inspect|restore``: what operators have given a cluster, kept in a file."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slotreeve_cli.options import DEFAULT_META, ClusterOption, MetaOption, Output, OutputOption

if TYPE_CHECKING:
    from slotreeve_client.snapshots import Snapshot, Step

FileArgument = Annotated[Path, typer.Argument(help="The snapshot; - reads it from the standard input.")]


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(
        no_args_is_help=True,
        help="Provided configuration and standing orders, saved to a file and restored, e.g. under another election.",
    )
    group.command("save", epilog="Example: slotreeve snapshot save before.json")(save)
    group.command("inspect", epilog="Example: slotreeve snapshot inspect before.json")(inspect)
    group.command(
        "restore",
        epilog="Examples: slotreeve snapshot restore before.json --dry-run  |  slotreeve snapshot restore before.json "
        "--yes",
    )(restore)
    app.add_typer(group, name="snapshot")


def save(
    file: Annotated[Path, typer.Argument(help="Where to; - prints it.")],
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
) -> None:
    """Save what the meta leader has now. Registrations are not part of it: their providers send them again."""
    from slotreeve.errors import ConfigError
    from slotreeve_client.snapshots import encode
    from slotreeve_client.tools import run_async

    data = run_async(_take(meta, cluster))
    if str(file) == "-":
        typer.echo(encode(data).decode(), nl=False)
        return
    made = file.with_name(f"{file.name}.new") if force else file
    try:
        if force:
            made.unlink(missing_ok=True)  # left by one that was interrupted
        # Hashes of tokens and values of the configuration are in it.
        with open(made, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as target:
            target.write(encode(data))
            target.flush()
            os.fsync(target.fileno())
        if force:
            made.replace(file)
    except FileExistsError:
        raise ConfigError(f"{file}: exists already; --force replaces it") from None
    except OSError as error:
        with contextlib.suppress(OSError):
            made.unlink()  # half of it, where the disk is full
        raise ConfigError(f"{file}: cannot be written: {error.strerror}") from None
    typer.echo(f"{file}: {len(data.entries)} keys of cluster {data.cluster}, view {data.revision}, term {data.term}")


def inspect(file: FileArgument, output: OutputOption = Output.TABLE) -> None:
    """What is in a snapshot. Exit code 2 where the file is damaged or none."""
    from slotreeve_cli.printing import print_json, print_rows

    found = _read(file)
    rows: list[dict[str, object]] = [
        {"key": entry.key, "version": entry.version, "value": entry.value.decode("utf-8", "backslashreplace")}
        for entry in found.entries
    ]
    if output is Output.JSON:
        print_json(
            {
                "cluster": found.cluster,
                "taken_at": found.taken_at,
                "term": found.term,
                "revision": found.revision,
                "table_epoch": found.table_epoch,
                "servers": found.servers,
                "entries": rows,
            }
        )
        return
    typer.echo(f"cluster {found.cluster}, taken at {found.taken_at}, view {found.revision} of term {found.term}")
    typer.echo(f"servers: {', '.join(found.servers) or 'none'}")
    print_rows(rows, output, empty="no configuration and no orders")


def restore(
    file: FileArgument,
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    delete_extra: Annotated[
        bool, typer.Option("--delete-extra", help="Delete keys that the snapshot does not have.")
    ] = False,
    other_cluster: Annotated[
        bool, typer.Option("--other-cluster", help="The snapshot is of a cluster with another name.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Write what differs through the meta leader, and read all of it back. Keys that the snapshot does not have stay,
    unless they are to be deleted. A key that somebody else writes meanwhile is not overwritten: that is an error."""
    from slotreeve.errors import ConfigError
    from slotreeve_client.snapshots import Change
    from slotreeve_client.tools import run_async

    from slotreeve_cli.printing import print_rows

    if str(file) == "-" and not (yes or dry_run):
        raise ConfigError("-: the snapshot comes from the standard input, where nobody can be asked; expected --yes")
    found = _read(file)
    if found.cluster != cluster and not other_cluster:
        raise ConfigError(
            f"{file}: it is of the cluster {found.cluster!r}, not {cluster!r}; --other-cluster restores it all the same"
        )
    todo = run_async(_steps(meta, cluster, found))
    rows: list[dict[str, object]] = [
        {"key": step.key, "change": _said(step.change, delete_extra), "bytes": len(step.value or b"")} for step in todo
    ]
    print_rows(rows, output, empty="the snapshot and the cluster have no keys")
    writes = [step for step in todo if step.change in (Change.ADD, Change.REPLACE)]
    writes += [step for step in todo if step.change is Change.EXTRA and delete_extra]
    stay = [step.key for step in todo if step.change is Change.EXTRA and not delete_extra]
    if stay:
        typer.echo(
            f"left as they are, because the snapshot lacks them: {', '.join(stay)}; see --delete-extra", err=True
        )
    if dry_run or not writes:
        return
    if not yes:
        typer.confirm(f"Write {len(writes)} keys?", abort=True)
    run_async(_write(meta, cluster, found, writes, delete_extra))
    typer.echo(f"{len(writes)} keys written; the cluster has what the snapshot has", err=True)


def _said(change: str, delete_extra: bool) -> str:
    return "delete" if change == "extra" and delete_extra else change


def _read(file: Path) -> Snapshot:
    from slotreeve.errors import ConfigError
    from slotreeve_client.snapshots import decode

    try:
        return decode(sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes(), str(file))
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None


async def _take(addresses: list[str], cluster: str) -> Snapshot:
    from datetime import UTC, datetime

    from slotreeve_client.administration import cluster_view, get_configs
    from slotreeve_client.snapshots import take
    from slotreeve_client.tools import open_transport

    transport = open_transport()
    try:
        view = await cluster_view(transport, cluster, addresses)
        entries = await get_configs(transport, cluster, addresses)
    finally:
        await transport.close()
    return take(cluster, datetime.now(UTC).isoformat(timespec="seconds"), view, entries)


async def _steps(addresses: list[str], cluster: str, snapshot: Snapshot) -> list[Step]:
    from slotreeve_client.administration import get_configs
    from slotreeve_client.snapshots import steps
    from slotreeve_client.tools import open_transport

    transport = open_transport()
    try:
        return steps(snapshot, await get_configs(transport, cluster, addresses, with_deleted=True))
    finally:
        await transport.close()


async def _write(
    addresses: list[str], cluster: str, snapshot: Snapshot, writes: list[Step], delete_extra: bool
) -> None:
    from slotreeve.errors import ClientError
    from slotreeve_client.administration import put_config
    from slotreeve_client.snapshots import Change
    from slotreeve_client.tools import open_transport

    transport = open_transport()
    try:
        for step in writes:
            await put_config(transport, cluster, addresses, step.key, step.value, step.expected_version)
    finally:
        await transport.close()
    ends = {Change.KEEP} if delete_extra else {Change.KEEP, Change.EXTRA}
    wrong = [step.key for step in await _steps(addresses, cluster, snapshot) if step.change not in ends]
    if wrong:
        raise ClientError(f"after the restore these keys differ, somebody else has written them: {', '.join(wrong)}")
