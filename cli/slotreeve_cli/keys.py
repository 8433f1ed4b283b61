"""``slotreeve keys``: who may take part in a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slotreeve_cli.options import NOT_FOUND, Rows, RowsOption

DirectoryOption = Annotated[
    Path, typer.Option("--directory", "-d", help="Where the files of keys are.", file_okay=False)
]
NameArgument = Annotated[str, typer.Argument(help="A node's name; of clients and tools, any name.")]
DIRECTORY = Path("keys")


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        help="Keys of servers, gateways, programs and people. trusted.toml says whose keys count: the same file for "
        "every process, which follows each change of it. NAME.toml is the secret of one process."
    )
    group.command(
        "new",
        epilog="Examples: slotreeve keys new data-1 --role data  |  slotreeve keys new shop --role client  |  "
        "slotreeve keys new night-shift --role tool",
    )(new)
    group.command("renew", epilog="Example: slotreeve keys renew data-1")(renew)
    group.command(
        "revoke", epilog="Examples: slotreeve keys revoke shop  |  slotreeve keys revoke data-1 --but-newest"
    )(revoke)
    group.command("list", epilog="Examples: slotreeve keys list  |  slotreeve keys list -d /etc/slotreeve -o json")(
        list_
    )
    app.add_typer(group, name="keys")


def new(
    name: NameArgument,
    role: Annotated[str, typer.Option("--role", help="meta, data, session, gateway, client or tool.")],
    directory: DirectoryOption = DIRECTORY,
) -> None:
    """Make a key, and trust it. A tool may do whatever an operator does."""
    from slotreeve.errors import ConfigError
    from slotreeve.key_files import issue
    from slotreeve.model.nodes import Role
    from slotreeve_client.tools import new_key_pair

    if role not in tuple(Role):
        raise ConfigError(f"--role {role}: there is no such role; expected one of {', '.join(Role)}")
    own = issue(directory, name, Role(role), new_key_pair())
    typer.echo(f"{own}: the secret key of {name}, for that process only")


def renew(name: NameArgument, directory: DirectoryOption = DIRECTORY) -> None:
    """Make another key for a name. Both are trusted until `slotreeve keys revoke NAME --but-newest`: give trusted.toml
    to every process, then the new secret to its own and start that again."""
    from slotreeve.key_files import TRUSTED_FILE, trusted_in, write_own, write_trusted
    from slotreeve.keys import Principal
    from slotreeve_client.tools import new_key_pair

    known = trusted_in(directory)
    former = next((principal for principal in known if principal.name == name), None)
    if former is None:
        raise _missing(name)
    pair = new_key_pair()
    principal = Principal(name, former.role, pair.public)
    own = directory / f"{name}.toml"
    write_own(own, principal, pair, replaces=True)
    write_trusted(directory / TRUSTED_FILE, [*known, principal])
    typer.echo(f"{own}: the new secret key of {name}; the one before is trusted as well until you revoke it")


def revoke(
    name: NameArgument,
    but_newest: Annotated[bool, typer.Option("--but-newest", help="Keep the newest key of this name.")] = False,
    directory: DirectoryOption = DIRECTORY,
) -> None:
    """Trust the keys of a name no more. Whoever holds one has to go, within a second after a process has the new
    trusted.toml. Exit code 3 where there is none of this name."""
    from slotreeve.key_files import TRUSTED_FILE, trusted_in, write_trusted

    known = trusted_in(directory)
    theirs = [principal for principal in known if principal.name == name]
    if not theirs:
        raise _missing(name)
    gone = theirs[:-1] if but_newest else theirs
    write_trusted(directory / TRUSTED_FILE, [principal for principal in known if principal not in gone])
    typer.echo(f"revoked: {len(gone)} key{'s' if len(gone) != 1 else ''} of {name}")


def list_(directory: DirectoryOption = DIRECTORY, output: RowsOption = Rows.TABLE) -> None:
    """Every trusted key. None of them is secret."""
    from slotreeve.key_files import trusted_in

    from slotreeve_cli.printing import print_rows

    rows: list[dict[str, object]] = [
        {"name": principal.name, "role": str(principal.role), "key": principal.key}
        for principal in trusted_in(directory)
    ]
    print_rows(rows, output, empty=f"no key is trusted in {directory}")


def _missing(name: str) -> typer.Exit:
    typer.echo(f"there is no key of {name}")
    return typer.Exit(NOT_FOUND)
