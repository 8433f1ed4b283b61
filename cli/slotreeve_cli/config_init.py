"""``slotreeve config init``: the files of a whole cluster, a directory for each machine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slotreeve_cli.units import PROGRAM, TARGET, unit, unit_name

if TYPE_CHECKING:
    from slotreeve.catalogue import Catalogue

OPERATOR = "operator"
PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*").fullmatch
PATH = re.compile(r"[\w/.+@:-]+").fullmatch
"""Names of servers and hosts: they stand in file names, units and addresses."""
ROLES = ("meta", "data", "session", "gateway")


@dataclass(frozen=True)
class Planned:
    """One server: ``NAME=HOST`` or ``NAME=HOST:PORT`` of a flag."""

    role: str
    name: str
    host: str
    port: int

    @property
    def address(self) -> str:
        """Where others reach it."""
        return f"{self.host}:{self.port}"


def planned(role: str, text: str) -> Planned:
    """Read a flag.

    Raises:
        ConfigError: it is not of that form.
    """
    from slotreeve.errors import ConfigError
    from slotreeve.model.nodes import Role
    from slotreeve_servers.launch import ROLE_PORTS

    name, _, place = text.partition("=")
    host, _, port = place.rpartition(":") if not place.endswith("]") else (place, "", "")
    if place and not host:
        host, port = place, ""
    if not host or (port and not (port.isdigit() and 0 < int(port) < 65_000)):
        raise ConfigError(f"--{role} {text}: expected NAME=HOST or NAME=HOST:PORT, e.g. {role}-1=10.0.0.1")
    if not PLAIN(name) or name == OPERATOR:
        raise ConfigError(f"--{role} {text}: {name!r} is no name of a server; expected letters, digits, . _ and -")
    if not PLAIN(host) and not (host.startswith("[") and host.endswith("]")):
        raise ConfigError(f"--{role} {text}: {host!r} is no host; expected a name, an address, or [IPv6]")
    return Planned(role, name, host, int(port) if port else ROLE_PORTS[Role(role)])


def _flag(role: str) -> typer.models.OptionInfo:
    option = typer.Option(f"--{role}", help=f"A {role} server: NAME=HOST or NAME=HOST:PORT; repeatable.")
    assert isinstance(option, typer.models.OptionInfo)
    return option


def add_to(group: typer.Typer) -> None:
    """Add the command."""
    group.command(
        "init",
        epilog="Examples: slotreeve config init here  |  slotreeve config init cluster --meta meta-1=10.0.0.1 --meta "
        "meta-2=10.0.0.2 --meta meta-3=10.0.0.3 --data data-1=10.0.0.4 --data data-2=10.0.0.5 --session "
        "session-1=10.0.0.6",
    )(init)


def init(
    directory: Annotated[Path, typer.Argument(help="Where the files are written; it must not exist.")],
    meta: Annotated[list[str], _flag("meta")] = ["meta-1=127.0.0.1"],  # noqa: B006 - typer copies it
    data: Annotated[list[str], _flag("data")] = ["data-1=127.0.0.1"],  # noqa: B006
    session: Annotated[list[str], _flag("session")] = ["session-1=127.0.0.1"],  # noqa: B006
    gateway: Annotated[list[str], _flag("gateway")] = [],  # noqa: B006
    election: Annotated[str, typer.Option("--election", help="fle, postgres, mysql, or that of a plugin.")] = "fle",
    target: Annotated[Path, typer.Option("--target", help="Where a machine's files will be on that machine.")] = Path(
        TARGET
    ),
    program: Annotated[
        str, typer.Option("--program", help="Where the command slotreeve is there, for units.")
    ] = PROGRAM,
) -> None:
    """Write what each machine of a cluster needs: one complete configuration, a key for each server, what is
    particular to each, and units of systemd. Every server gets a key, and so does an operator."""
    from slotreeve.catalogue import Catalogue
    from slotreeve.errors import ConfigError
    from slotreeve.offers import Port

    flags = {"meta": meta, "data": data, "session": session, "gateway": gateway}
    servers = [planned(role, text) for role, texts in flags.items() for text in texts]
    names = [server.name for server in servers]
    if twice := sorted({one for one in names if names.count(one) > 1}):
        raise ConfigError(f"{twice[0]} is named twice; each server needs a name of its own")
    if len({server.address for server in servers}) < len(servers):
        raise ConfigError("two servers have one address; give each its own port: NAME=HOST:PORT")
    for option, path in (("--target", str(target)), ("--program", program)):
        if not PATH(path):
            raise ConfigError(
                f"{option} {path}: expected a path of letters, digits and / . _ + @ : - for units of systemd"
            )
    if directory.exists():
        raise ConfigError(f"{directory}: exists already; expected a new directory, since keys are made in it")
    catalogue = Catalogue.load()
    catalogue.find(Port.ELECTION, election, "--election")
    try:
        _write(directory, servers, target, _configuration(catalogue, servers, election))
        for server in servers:
            units = directory / _folder(server.host) / "systemd"
            units.mkdir(exist_ok=True)
            (units / unit_name(server.role)).write_text(unit(server.role, program, target), encoding="utf-8")
    except OSError as error:
        where = error.filename or directory
        raise ConfigError(
            f"{where}: cannot be written: {error.strerror}; remove {directory} before you try again"
        ) from None
    hosts = sorted({server.host for server in servers})
    typer.echo(f"{directory}: files for {', '.join(hosts)}")
    typer.echo(f"next: {directory / 'README.txt'}")


def _configuration(catalogue: Catalogue, servers: list[Planned], election: str) -> str:
    from slotreeve_protocol.addresses import is_loopback

    from slotreeve_cli.config_file import complete_file

    of = {role: [server for server in servers if server.role == role] for role in ROLES}
    chosen: dict[str, object] = {
        "cluster.meta": {server.name: server.address for server in of["meta"]},
        "gateway.sessions": [f"{server.name}@{server.address}" for server in of["session"]],
        "election.use": election,
        "http.enabled": all(is_loopback(server.address) for server in servers),
    }
    if election == "fle":  # below where the server runs: the unit and the image start it in a directory of its own
        chosen |= {"election.fle.data_dir": "state-{node}"}
    if any(not is_loopback(server.address) for server in of["gateway"]):
        chosen |= {"gateway.authentication": "tokens"}
    return complete_file(catalogue, chosen)


def _write(directory: Path, servers: list[Planned], target: Path, configuration: str) -> None:
    from slotreeve.key_files import TRUSTED_FILE, issue
    from slotreeve.model.nodes import Role
    from slotreeve_client.tools import new_key_pair

    all_keys = directory / OPERATOR / "keys"
    issue(all_keys, OPERATOR, Role.TOOL, new_key_pair())
    own = {server.name: issue(all_keys, server.name, Role(server.role), new_key_pair()) for server in servers}
    trusted = (all_keys / TRUSTED_FILE).read_text(encoding="utf-8")
    for host in {server.host for server in servers}:
        place = directory / _folder(host)
        (place / "keys").mkdir(0o700, parents=True)
        (place / "slotreeve.toml").write_text(configuration, encoding="utf-8")
        (place / "keys" / TRUSTED_FILE).write_text(trusted, encoding="utf-8")
    for server in servers:
        place = directory / _folder(server.host)
        own[server.name].rename(place / "keys" / f"{server.name}.toml")
        variables = place / f"{server.name}.env"
        variables.write_text(environment(server, target), encoding="utf-8")
        variables.chmod(0o600)  # a connection string with a password may be added
    (directory / "README.txt").write_text(_guide(directory, servers, target), encoding="utf-8")
    (directory / OPERATOR / "env").write_text(_operator(servers, all_keys), encoding="utf-8")


def _folder(host: str) -> str:
    return host.strip("[]").replace(":", "_")


def environment(server: Planned, target: Path) -> str:
    """What is particular to a server, as variables: the file that its unit reads."""
    from slotreeve_protocol.addresses import is_loopback

    variables = {"NODE__OWN_KEY": str(target / "keys" / f"{server.name}.toml")}
    if server.role in ("data", "session"):
        variables["NODE__ADVERTISE"] = server.address
    if server.role == "gateway":
        variables["GATEWAY__LISTEN"] = server.address
        if not is_loopback(server.address):
            variables["GATEWAY__TLS_CERTIFICATE"] = str(target / "tls" / f"{server.name}.pem")
            variables["GATEWAY__TLS_KEY"] = str(target / "tls" / f"{server.name}.key")
    return "".join(f"SLOTREEVE__{key}={value}\n" for key, value in variables.items())


def _operator(servers: Iterable[Planned], keys: Path) -> str:
    of: Mapping[str, list[str]] = {
        role: [f"{server.name}@{server.address}" for server in servers if server.role == role] for role in ROLES
    }
    return (
        f'export SLOTREEVE_META="{" ".join(of["meta"])}"\n'
        f'export SLOTREEVE_SESSION="{" ".join(of["session"])}"\n'
        f'export SLOTREEVE_OWN_KEY="{(keys / f"{OPERATOR}.toml").resolve()}"\n'
    )


def _guide(directory: Path, servers: list[Planned], target: Path) -> str:
    lines = [
        f"1. Bring the directory of each machine to it, as {target}, readable by the account of the servers only:",
        *(f"     {_folder(host)}  to  {host}" for host in sorted({server.host for server in servers})),
        "   A configuration with a database names it by a variable in each env file of a meta server:",
        "     SLOTREEVE__ELECTION__POSTGRES__DSN=postgresql://...",
        "   Gateways that other machines reach need a certificate (tls/) and tokens.",
        f"2. Start the servers, meta servers first; with systemd (cp {target}/systemd/* /etc/systemd/system):",
        *(f"     {server.host}: systemctl enable --now slotreeve-{server.role}@{server.name}" for server in servers),
        "   or by hand, each in a directory of its own, which keeps its state, with the variables of the env file:",
        f"     set -a; . {target}/NAME.env; slotreeve ROLE run -c {target}/slotreeve.toml --name NAME",
        "3. Look, as the operator whose key is in operator/:",
        f"     . {directory / OPERATOR / 'env'}; slotreeve status",
        "Check a server before the start:",
        f"     set -a; . {target}/NAME.env",
        f"     slotreeve config check -c {target}/slotreeve.toml --set node.name=NAME",
        "   and a meta server with --online as well: its ports, its election's store, the other meta servers.",
    ]
    return "\n".join(lines) + "\n"
