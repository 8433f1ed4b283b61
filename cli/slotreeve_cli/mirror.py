"""``slotreeve import`` and ``slotreeve compare``: the services of another registry, while callers move to this one."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from slotreeve_cli.options import DEFAULT_SESSION, ClusterOption, Output, OutputOption, SessionOption

if TYPE_CHECKING:
    from slotreeve_client import Client, Instance
    from slotreeve_mirror.comparison import Difference
    from slotreeve_mirror.source import MirrorSource

TOKEN = "SLOTREEVE_IMPORT_TOKEN"  # noqa: S105 - the name of a variable
"""The environment variable with the token that the other registry wants."""
FOLLOWED_TTL_SECONDS = 90.0
IMPORTED_TTL_SECONDS = 3_600.0
AT_ONCE = 64
"""How many services of ours are read at a time."""


class OtherRegistry(StrEnum):
    """Registries that can be read."""

    CONSUL = "consul"
    EUREKA = "eureka"
    NACOS = "nacos"


FromOption = Annotated[OtherRegistry, typer.Option("--from", help="What the other registry is.")]
UrlArgument = Annotated[
    str,
    typer.Argument(
        metavar="URL",
        help="Consul: http://HOST:8500. Eureka: http://HOST:8761/eureka. Nacos: http://HOST:8848/nacos. "
        f"Its token comes from {TOKEN}.",
    ),
]
GroupOption = Annotated[str, typer.Option("--group", help="Group of the services here.")]
OnlyOption = Annotated[str, typer.Option("--only", help="Only services whose name fits, e.g. 'shop-*'.")]
NamespaceOption = Annotated[str, typer.Option("--nacos-namespace", help="Id of the namespace there; empty: public.")]
NacosGroupOption = Annotated[str, typer.Option("--nacos-group", help="Group there; empty: DEFAULT_GROUP.")]
EveryOption = Annotated[float, typer.Option("--every", min=0.1, help="Seconds between questions to Eureka and Nacos.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(
        "import",
        epilog="Examples: slotreeve import --from eureka http://10.0.0.9:8761/eureka --follow  |  "
        "slotreeve import --from consul http://10.0.0.9:8500 --only 'shop-*'. Docs: docs/migrating.md.",
    )(import_)
    app.command(
        "compare",
        epilog="Example: slotreeve compare --from consul http://10.0.0.9:8500. Exit code 1 if something differs.",
    )(compare)


def import_(
    url: UrlArgument,
    from_: FromOption,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on until Ctrl-C, and keep ours equal to theirs.")
    ] = False,
    session: SessionOption = [DEFAULT_SESSION],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    group: GroupOption = "DEFAULT_GROUP",
    only: OnlyOption = "*",
    every: EveryOption = 0.5,
    nacos_namespace: NamespaceOption = "",
    nacos_group: NacosGroupOption = "",
    ttl: Annotated[
        float | None,
        typer.Option(
            min=1,
            max=86_400,
            help="Seconds that registrations outlive this command; default: 90 with --follow, else 3600.",
        ),
    ] = None,
) -> None:
    """Register the instances of another registry here, as leases. An application that registers itself here under the
    same name and id takes its lease over: nothing is registered twice, and the import leaves it alone."""
    from slotreeve.clock import MachineClock
    from slotreeve_client.tools import open_client, run_async
    from slotreeve_mirror.following import Mirror
    from slotreeve_mirror.mirror import MirrorCore
    from slotreeve_mirror.source import without_password

    asked = _Asked(from_, url, group, only, every, {"namespaceId": nacos_namespace, "groupName": nacos_group})
    seconds = ttl if ttl is not None else FOLLOWED_TTL_SECONDS if follow else IMPORTED_TTL_SECONDS

    def report(text: str) -> None:
        typer.echo(f"import: {text}", err=True)

    async def run() -> None:
        clock = MachineClock()
        async with _source(asked) as source, open_client(session, cluster) as client:
            mirror = Mirror(source, MirrorCore(without_password(url), seconds), client, clock, report)
            if follow:
                await mirror.follow(seconds, _admits(group, only))
            else:
                report(f"{await mirror.import_once()} instances, for {seconds:g} s")

    run_async(run())


def compare(
    url: UrlArgument,
    from_: FromOption,
    session: SessionOption = [DEFAULT_SESSION],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    group: GroupOption = "DEFAULT_GROUP",
    only: OnlyOption = "*",
    nacos_namespace: NamespaceOption = "",
    nacos_group: NacosGroupOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Say what differs between another registry and this one: instances that are only in one, and fields."""
    from slotreeve_client.tools import open_client, run_async
    from slotreeve_mirror.comparison import differences
    from slotreeve_mirror.source import first_of

    from slotreeve_cli.printing import print_rows

    asked = _Asked(from_, url, group, only, 1.0, {"namespaceId": nacos_namespace, "groupName": nacos_group})

    async def run() -> list[Difference]:
        async with _source(asked) as source, open_client(session, cluster) as client:
            theirs = await first_of(source)
            return differences(theirs, await _ours(client, group, only))

    found = run_async(run())
    rows: list[dict[str, object]] = [
        {"service": each.service, "instance": each.instance, "differs": each.what} for each in found
    ]
    print_rows(rows, output, empty="nothing differs")
    if found:
        raise typer.Exit(1)


async def _ours(client: Client, group: str, only: str) -> Mapping[str, list[Instance]]:
    """The instances of all services of this group here, as their providers said them."""
    from asyncio import gather
    from itertools import islice

    admits = _admits(group, only)
    names = iter([name for name in await client.list() if admits(name)])
    ours: dict[str, list[Instance]] = {}
    while part := [*islice(names, AT_ONCE)]:
        for name, providers in zip(part, await gather(*map(client.get, part)), strict=True):
            ours[name] = [provider.said for provider in providers if provider.said is not None]
    return ours


@dataclass(frozen=True)
class _Asked:
    """What is read: the options that both commands have."""

    kind: OtherRegistry
    url: str
    group: str
    only: str
    every: float
    nacos: Mapping[str, str]

    def check(self) -> str:
        """The token. Raises ConfigError: address or token cannot be one."""
        from slotreeve.errors import ConfigError
        from slotreeve_mirror.source import can_be_read

        if not can_be_read(self.url):
            shown = self.url.rpartition("@")[2]  # a password may stand before it
            raise ConfigError(f"{shown}: is no address of a registry; expected e.g. http://10.0.0.9:8500")
        token = os.environ.get(TOKEN, "")
        if not token.isascii() or not token.isprintable():
            raise ConfigError(f"{TOKEN}: has characters that no header can hold; expected printable ASCII")
        return token


@asynccontextmanager
async def _source(asked: _Asked) -> AsyncIterator[MirrorSource]:
    """The source at this address, open. Raises ConfigError."""
    from slotreeve.clock import MachineClock
    from slotreeve_mirror.consul import ConsulSource
    from slotreeve_mirror.eureka import EurekaSource
    from slotreeve_mirror.nacos import NacosSource
    from slotreeve_mirror.source import Narrowed, SourcePages

    token, clock = asked.check(), MachineClock()
    headers = {"Accept": "application/json"}
    if token and asked.kind is OtherRegistry.CONSUL:
        headers["X-Consul-Token"] = token
    elif token and asked.kind is OtherRegistry.EUREKA:
        headers["Authorization"] = f"Bearer {token}"
    pages = SourcePages(asked.url, headers)
    source: MirrorSource
    if asked.kind is OtherRegistry.CONSUL:
        source = ConsulSource(pages, clock, asked.group)
    elif asked.kind is OtherRegistry.EUREKA:
        source = EurekaSource(pages, clock, asked.group, asked.every)
    else:
        fixed = {name: value for name, value in {**asked.nacos, "accessToken": token}.items() if value}
        source = NacosSource(pages, clock, asked.group, asked.every, fixed)
    try:
        yield Narrowed(source, _admits(asked.group, asked.only))
    finally:
        await pages.close()


def _admits(group: str, only: str) -> Callable[[str], bool]:
    """Whether a data info id is of this group, and its name fits."""
    from fnmatch import fnmatchcase

    from slotreeve.model.data_info import DataInfo

    def admits(name: str) -> bool:
        info = DataInfo.parse(name)
        # Services with an instance id of their own are what faces keep for themselves.
        return info == DataInfo(info.data_id, group=group) and fnmatchcase(info.data_id, only)

    return admits
