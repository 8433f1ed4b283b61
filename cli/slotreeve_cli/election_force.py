"""``slotreeve election force-new-cluster``: a new cluster from what is left of one that has lost most of its disks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol, runtime_checkable

import typer

from slotreeve_cli.options import ConfigOption, Rows, RowsOption, SetOption, read_configuration

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import ExitStack

    from slotreeve_servers.settings import ServerConfiguration

EPILOG = (
    "Examples: slotreeve election force-new-cluster -c cluster.toml state-meta-1 --dry-run  |  "
    "slotreeve election force-new-cluster -c cluster.toml state-meta-1 state-meta-4"
)
LOST = (
    "What the lost meta servers acknowledged after write {last} is given up: provided configuration and standing "
    "orders. Registrations are not in it. Meta servers with other directories of the old cluster are refused from now "
    "on. Make {chosen} the beginning of a new cluster?"
)
DONE = (
    "{chosen} is the beginning of the new cluster {name}, with everything up to write {last}; now put a copy of it in "
    "the place of the data_dir of every meta server, and start all of them"
)


class SurvivingHistory(Protocol):
    """What a data directory holds."""

    @property
    def current_epoch(self) -> int:
        """The last epoch whose leader its server was in sync with."""

    @property
    def last_zxid(self) -> int:
        """The last write in its log."""

    @property
    def accepted_epoch(self) -> int:
        """The highest epoch that its server has accepted."""

    @property
    def keys(self) -> int:
        """How many keys the meta state has."""


class SurvivingDirectory(Protocol):
    """A data directory that no server uses, locked until it is closed."""

    def history(self) -> SurvivingHistory:
        """Read it; nothing is written. Raises StorageError."""

    def begin_ensemble(self, name: str) -> None:
        """Make it the beginning of a new cluster. Raises StorageError."""

    def close(self) -> None:
        """Release the lock."""


@runtime_checkable
class SurvivesInDirectories(Protocol):
    """An election that keeps the meta state in data directories."""

    def left_directory(self, path: str) -> SurvivingDirectory:
        """Open and lock one. Raises StorageError."""


DirectoriesArgument = Annotated[
    list[Path],
    typer.Argument(help="Data directories that are left, of stopped meta servers; the most advanced one is used."),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show what the directories hold.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def add_to(group: typer.Typer) -> None:
    """Add the command."""
    group.command("force-new-cluster", epilog=EPILOG)(force_new_cluster)


def force_new_cluster(
    directories: DirectoriesArgument,
    config: ConfigOption = None,
    settings: SetOption = [],  # noqa: B006 - typer copies it
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: RowsOption = Rows.TABLE,
) -> None:
    """Make one data directory the beginning of a new cluster, where most meta servers have lost theirs for good. Every
    meta server then starts with a copy of it, and those with older directories are refused. What the lost meta servers
    acknowledged after the last write in this directory is given up."""
    import uuid
    from contextlib import ExitStack

    from slotreeve_client.tools import run_async

    from slotreeve_cli.printing import print_rows

    configuration = read_configuration(config, settings)
    election = run_async(_election(configuration))
    with ExitStack() as stack:
        opened = {str(path): _opened(election, path, stack) for path in directories}
        histories = _histories(opened)
        chosen = max(histories, key=lambda path: _rank(histories[path]))
        print_rows([_row(path, history, path == chosen) for path, history in histories.items()], output)
        members = len(configuration.settings.cluster.meta)
        if members > 1 and 2 * len(histories) > members:
            typer.echo(f"{len(histories)} of {members} directories are left: start those servers instead", err=True)
        if dry_run:
            return
        last = _hexadecimal(histories[chosen].last_zxid)
        if not yes:
            typer.confirm(LOST.format(last=last, chosen=chosen), abort=True, err=True)
        name = uuid.uuid4().hex
        opened[chosen].begin_ensemble(name)
    typer.echo(DONE.format(last=last, chosen=chosen, name=name), err=True)


async def _election(configuration: ServerConfiguration) -> SurvivesInDirectories:
    import random

    from slotreeve.catalogue import Catalogue
    from slotreeve.clock import MachineClock
    from slotreeve.errors import ConfigError
    from slotreeve_machines.storage import DirectoryStorage
    from slotreeve_servers.launch import Launcher

    launcher = Launcher(configuration, Catalogue.load(), MachineClock(), random.Random())
    election = launcher.election(open_storage=DirectoryStorage.open)
    if not isinstance(election, SurvivesInDirectories):
        use = configuration.settings.election.use
        raise ConfigError(
            f"election.use: {use!r} keeps no state in data directories; for a database that was restored there is "
            "slotreeve election accept"
        )
    return election


def _opened(election: SurvivesInDirectories, path: Path, stack: ExitStack) -> SurvivingDirectory:
    from slotreeve.errors import StorageError

    if not path.is_dir():
        raise StorageError(f"{path}: is no directory")
    try:
        directory = election.left_directory(str(path))
    except StorageError as error:
        raise StorageError(f"{error}; stop its meta server, and every other one of the cluster, first") from None
    stack.callback(directory.close)
    return directory


def _histories(opened: Mapping[str, SurvivingDirectory]) -> dict[str, SurvivingHistory]:
    """Those that can be read. Raises StorageError where none can."""
    from slotreeve.errors import StorageError

    found: dict[str, SurvivingHistory] = {}
    failures = []
    for path, directory in opened.items():
        try:
            found[path] = directory.history()
        except StorageError as error:
            failures.append(str(error))
    if not found:
        raise StorageError("; ".join(failures))
    for failure in failures:
        typer.echo(f"slotreeve: left out: {failure}", err=True)
    return found


def _rank(history: SurvivingHistory) -> tuple[int, int, int]:
    """The greatest is the most advanced one: the order of candidates in an election (docs/fle.md, 5.2)."""
    return history.current_epoch, history.last_zxid, history.accepted_epoch


def _row(path: str, history: SurvivingHistory, is_chosen: bool) -> dict[str, object]:
    return {
        "directory": path,
        "chosen": is_chosen,
        "epoch": history.current_epoch,
        "last zxid": _hexadecimal(history.last_zxid),
        "accepted epoch": history.accepted_epoch,
        "keys": history.keys,
    }


def _hexadecimal(zxid: int) -> str:
    return f"{zxid:#x}"
