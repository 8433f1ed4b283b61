"""The live settings of a cluster: what is in force where, and what a change would do."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta
from slotreeve.errors import ClientError, ModelError
from slotreeve.model.nodes import Node, Role
from slotreeve.ports import Transport
from slotreeve_protocol.live_settings import LIVE_SETTINGS, SETTINGS_KEY, LiveSettings, Value, live_setting
from slotreeve_protocol.meta_messages import ConfigEntry
from slotreeve_protocol.people_messages import GetSettings, SettingsAre

from slotreeve_client.administration import ask_any, cluster_view, get_entry
from slotreeve_client.condition import meta_servers
from slotreeve_client.each_server import ask_each


class SettingReport(msgspec.Struct, frozen=True):
    """A setting, at the servers that have the same value of the same origin."""

    name: Annotated[str, Meta(description="Its key in the configuration.")]
    value: Annotated[Value, Meta(description="What is in force.")]
    live: Annotated[bool, Meta(description="An operator has changed it while servers run.")]
    configured: Annotated[Value | None, Meta(description="What their configuration says; null: no server was asked.")]
    origin: Annotated[str, Meta(description="Where: a file, a variable, a flag, or default; empty: not known.")]
    bounds: Annotated[str, Meta(description="What it may be changed to.")]
    servers: list[str]


class SettingsReport(msgspec.Struct, frozen=True):
    """The settings that an operator may change while servers run."""

    version: Annotated[int, Meta(description="Of the table of changes; 0: there never were any.")]
    settings: list[SettingReport]
    ignored: Annotated[list[str], Meta(description="Changes that servers do not follow, in sentences.")]
    silent: Annotated[dict[str, str], Meta(description="Servers that did not tell, with the reason.")]


async def settings_in_force(
    transport: Transport, cluster: str, metas: Iterable[str], more: Iterable[tuple[str, SettingsAre]] = ()
) -> SettingsReport:
    """Ask every server. ``more``: what others say that cannot be asked, by their names.

    Raises:
        Refused, Unreachable, ClientError: no meta server leads, or none tells which servers there are.
    """
    known = list(metas)
    entry = await get_entry(transport, cluster, known, SETTINGS_KEY)
    view = await cluster_view(transport, cluster, known)
    servers = [Node(meta.name, Role.META, meta.address, "") for meta in await meta_servers(transport, cluster, known)]

    async def ask(node: Node) -> SettingsAre:
        reply = await ask_any(transport, cluster, [node.address], GetSettings())
        if not isinstance(reply, SettingsAre):
            raise ClientError(f"{node.name} answered with a {type(reply).__name__}")
        return reply

    found, silent = await ask_each([*servers, *view.data, *view.sessions], ask)
    return settings_report(entry, [*found.items(), *more], silent)


def settings_report(
    stored: ConfigEntry, found: Sequence[tuple[str, SettingsAre]], silent: dict[str, str] | None = None
) -> SettingsReport:
    """What servers have told, by their names, and what else is in the ``stored`` table: settings of processes that were
    not asked."""
    rows: dict[tuple[object, ...], SettingReport] = {}
    for server, said in found:
        for one in said.settings:
            row = SettingReport(one.name, one.value, one.is_live, one.configured, one.origin, _bounds(one.name), [])
            rows.setdefault(msgspec.structs.astuple(row)[:5], row).servers.append(server)
    version, table, ignored = stored.version, LiveSettings(), list[str]()
    try:
        table = LiveSettings.decode(stored.value)
    except ModelError as error:
        ignored.append(str(error))
    told = {row.name for row in rows.values()}
    for name, value in table.good().items():
        if name not in told:
            rows[(name,)] = SettingReport(name, value, True, None, "", _bounds(name), [])
    order = {name: number for number, name in enumerate(LIVE_SETTINGS)}
    ignored += [f"{server}: {fault}" for server, said in found for fault in said.ignored.values()]
    ignored += [
        f"{server} follows version {said.version} of the changes as yet, not {version}"
        for server, said in found
        if said.version != version
    ]
    settings = sorted(rows.values(), key=lambda row: (order.get(row.name, len(order)), row.name))
    return SettingsReport(version, settings, ignored, dict(silent or {}))


def setting_change(found: SettingsReport, before: LiveSettings, name: str, value: Value | None) -> list[str]:
    """What it does that ``name`` gets this value in the table of changes, None: it is removed from there; in sentences.

    Raises:
        ModelError: no such setting may be changed, or the value is not within its bounds.
    """
    if before == before.changed(name, value):
        return [f"Nothing changes: {name} is {'not ' if value is None else ''}set{_as(value)} already."]
    rows = [row for row in found.settings if row.name == name and row.servers]
    sentences = []
    for row in rows:
        becomes = row.configured if value is None else value
        said = f" ({row.origin})" if value is None else ""
        was = f" (changed; {row.configured} is its {row.origin})" if row.live else f" ({row.origin})"
        sentences.append(f"{name} becomes {becomes}{said} at {', '.join(row.servers)}, where it is {row.value}{was}.")
    if not rows:
        whose = live_setting(name).section if name in LIVE_SETTINGS else "other"
        sentences.append(f"No server that was asked has {name} now; {whose} processes that do follow it.")
    return sentences


def undo_command(before: LiveSettings, name: str) -> str:
    """The command that gives ``name`` back what the table had before; empty: what was there may not be set."""
    if name not in before.values:
        return shlex.join(["slotreeve", "settings", "unset", name])
    was = before.good().get(name)
    return "" if was is None else shlex.join(["slotreeve", "settings", "set", name, str(was)])


def _bounds(name: str) -> str:
    return LIVE_SETTINGS[name].bounds if name in LIVE_SETTINGS else "known to newer versions only"


def _as(value: Value | None) -> str:
    return "" if value is None else f" to {value}"
