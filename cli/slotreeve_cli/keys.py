"""``slotreeve keys``: who may take part in a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slotreeve_cli.options import NOT_FOUND, Rows, RowsOption

DirectoryOption = Annotated[
    Path, typer.Option("--directory", "-d", help="Where the files of keys are.", file_okay=False)
]
RightOption = Annotated[
    list[str],
    typer.Option(
        "--right",
        help="Of a client: read:PATTERN or register:PATTERN; PATTERN is a data id with * for any characters. May be "
        "given several times.",
    ),
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
        epilog="Examples: slotreeve keys new data-1 --role data  |  slotreeve keys new shop --role client "
        "--right register:com.example.Shop --right 'read:com.example.*'  |  slotreeve keys new night-shift --role tool",
    )(new)
    group.command("renew", epilog="Example: slotreeve keys renew data-1")(renew)
    group.command(
        "rights",
        epilog="Example: slotreeve keys rights shop --right register:com.example.Shop --right 'read:com.example.*'",
    )(rights)
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
    right: RightOption = [],  # noqa: B006 - typer copies it
    directory: DirectoryOption = DIRECTORY,
) -> None:
    """Make a key, and trust it. A client may read and register every service unless its rights are given; a tool may do
    whatever an operator does."""
    from slotreeve.errors import ConfigError
    from slotreeve.key_files import ALL_RIGHTS, issue
    from slotreeve.model.nodes import Role
    from slotreeve_client.tools import new_key_pair

    if role not in tuple(Role):
        raise ConfigError(f"--role {role}: there is no such role; expected one of {', '.join(Role)}")
    if right and role != Role.CLIENT:
        raise ConfigError(f"--right {right[0]}: only clients have rights; a {role} has those of its role")
    own = issue(directory, name, Role(role), new_key_pair(), right or ALL_RIGHTS)
    typer.echo(f"{own}: the secret key of {name}, for that process only")


def renew(name: NameArgument, directory: DirectoryOption = DIRECTORY) -> None:
    """Make another key for a name. Both are trusted until `slotreeve keys revoke NAME --but-newest`: give trusted.toml
    to every process, then the new secret to its own and start that again."""
    from slotreeve.key_files import TRUSTED_FILE, changing, trusted_in, write_own, write_trusted
    from slotreeve_client.tools import new_key_pair

    with changing(directory):
        known = trusted_in(directory)
        former = next((principal for principal in known if principal.name == name), None)
        if former is None:
            raise _missing(name)
        pair = new_key_pair()
        principal = former._replace(key=pair.public)
        own = directory / f"{name}.toml"
        write_own(own, principal, pair, replaces=True)
        write_trusted(directory / TRUSTED_FILE, [*known, principal])
    typer.echo(f"{own}: the new secret key of {name}; the one before is trusted as well until you revoke it")


def rights(
    name: NameArgument,
    right: RightOption,
    directory: DirectoryOption = DIRECTORY,
) -> None:
    """Give a client these rights instead of those that it has. It has to connect again. Exit code 3 where there is no
    client of this name."""
    from slotreeve.key_files import TRUSTED_FILE, changing, trusted_in, write_trusted
    from slotreeve.keys import checked_rights
    from slotreeve.model.nodes import Role

    with changing(directory):
        known = trusted_in(directory)
        clients = [each.name for each in known if each.role is Role.CLIENT]
        if name not in clients:
            raise _missing(name)
        may = checked_rights(name, right, clients)
        path = directory / TRUSTED_FILE
        write_trusted(path, [each._replace(rights=may) if each.name == name else each for each in known])
    typer.echo(f"{name} may now: {' '.join(may)}")


def revoke(
    name: NameArgument,
    but_newest: Annotated[bool, typer.Option("--but-newest", help="Keep the newest key of this name.")] = False,
    directory: DirectoryOption = DIRECTORY,
) -> None:
    """Trust the keys of a name no more. Whoever holds one has to go, within a second after a process has the new
    trusted.toml. Exit code 3 where there is none of this name."""
    from slotreeve.key_files import TRUSTED_FILE, changing, trusted_in, write_trusted

    with changing(directory):
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
        {
            "name": each.name,
            "role": str(each.role),
            "rights": list(each.rights) if output is Rows.JSON else " ".join(each.rights),
            "key": each.key,
        }
        for each in trusted_in(directory)
    ]
    print_rows(rows, output, empty=f"no key is trusted in {directory}")


def _missing(name: str) -> typer.Exit:
    typer.echo(f"there is no key of {name}")
    return typer.Exit(NOT_FOUND)
