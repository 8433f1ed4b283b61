"""``slotreeve events``, ``diff`` and ``why``: what happened, when, and why."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from slotreeve_cli.options import DEFAULT_META, NOT_FOUND, ClusterOption, MetaOption, Output, OutputOption

if TYPE_CHECKING:
    from slotreeve.ports import Transport
    from slotreeve_client.history import Past, Span

SinceOption = Annotated[
    str, typer.Option("--since", help="From when on: 90s, 10m, 2h or 1d ago, 14:05, or an ISO time.")
]
MostOption = Annotated[int, typer.Option("--most", "-n", min=1, max=100_000, help="Print so many at most.")]
FOLLOW_SECONDS = 1.0


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(
        "events",
        epilog="Examples: slotreeve events  |  slotreeve events --since 10m --kind alarm  |  slotreeve events --follow "
        "-o json",
    )(events)
    app.command("diff", epilog="Examples: slotreeve diff 10m now com.example.Greeter  |  slotreeve diff 14:05 14:10")(
        diff
    )
    app.command(
        "why",
        epilog="Examples: slotreeve why com.example.Greeter  |  slotreeve why 10.0.0.1:8080  |  slotreeve why slot 17  "
        "|  slotreeve why leader",
    )(why)


def events(
    since: SinceOption = "1h",
    until: Annotated[str, typer.Option("--until", help="Until when; as --since.")] = "now",
    kind: Annotated[
        list[str], typer.Option("--kind", help="Only this kind; repeatable. docs/history.md lists them.")
    ] = [],  # noqa: B006 - typer copies it
    everything: Annotated[
        bool, typer.Option("--all", help="Also pushes, clients that come and go, and loads.")
    ] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what happens, until Ctrl-C.")] = False,
    most: MostOption = 100,
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    output: OutputOption = Output.TABLE,
) -> None:
    """What happened in the cluster, in sentences, the newest last: starts, ends, moves of slots with their cause,
    leaders, orders with who gave them, alarms. As JSON one event a line. Exit code 1 if a server does not answer."""
    from slotreeve_client.tools import run_async
    from slotreeve_events.schema import HISTORY_KINDS, USUAL_KINDS

    unknown = sorted(set(kind) - HISTORY_KINDS.keys())
    if unknown:
        raise typer.BadParameter(f"--kind {unknown[0]}: expected one of {', '.join(sorted(HISTORY_KINDS))}")
    kinds = tuple(kind) or (() if everything else USUAL_KINDS)
    begins, ends = _moments(since, until)
    run_async(_events(meta, cluster, _span(begins, None if follow else ends), kinds, most, follow, output))


async def _events(
    metas: list[str],
    cluster: str,
    span: Span,
    kinds: tuple[str, ...],
    most: int,
    follow: bool,
    output: Output,
) -> None:
    from slotreeve_client.history import past_events
    from slotreeve_client.tools import open_transport

    transport = open_transport()
    try:
        past = await past_events(transport, cluster, metas, span, kinds, most)
        _print_events(past, most, output)
        if not follow and (past.more or len(past.events) > most):
            typer.echo(f"only the newest events are here; -n {2 * most} shows more", err=True)
        places: dict[str, int] = dict.fromkeys(past.silent, 0)
        while follow:
            for server, event in past.events:
                places[server] = max(places.get(server, 0), event.place)
            await asyncio.sleep(FOLLOW_SECONDS)
            past = await past_events(transport, cluster, metas, span, kinds, most, places)
            _print_events(past, len(past.events), output)
    finally:
        await transport.close()
    _end(past)


def _print_events(past: Past, most: int, output: Output) -> None:
    from slotreeve_events.stories import decoded_event, sentence

    from slotreeve_cli.printing import as_text
    from slotreeve_cli.times import shown_time

    found = sorted(((decoded_event(e.event), e.event) for _, e in past.events), key=lambda pair: pair[0].at_ms)
    for event, body in found[max(0, len(found) - most) :]:
        if output is Output.JSON:
            print(body.decode(), flush=True)
        else:
            print(f"{shown_time(event.at_ms)}  {as_text(sentence(event))}", flush=True)


def diff(
    first: Annotated[str, typer.Argument(help="From when on: 90s, 10m, 2h or 1d ago, 14:05, or an ISO time.")],
    second: Annotated[str, typer.Argument(help="Until when.")] = "now",
    service: Annotated[str, typer.Argument(help="Only this service.")] = "",
    most: MostOption = 1000,
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    output: OutputOption = Output.TABLE,
) -> None:
    """What is different between two moments: which providers came, went or changed, of SERVICE or of all services that
    changed meanwhile. Exit code 3 if nothing did."""
    from slotreeve_client.tools import asked, run_async

    from slotreeve_cli.printing import print_rows

    begins, ends = _moments(first, second)
    rows, past = run_async(asked(lambda t: _differences(t, cluster, meta, service, begins, ends, most)))
    print_rows(rows, output, empty="nothing changed")
    if past.more:
        typer.echo(f"only the newest changes are here; -n {2 * most} looks at more", err=True)
    _end(past, begins)
    if not rows:
        raise typer.Exit(NOT_FOUND)


async def _differences(
    transport: Transport, cluster: str, metas: list[str], service: str, since_ms: int, until_ms: int, most: int
) -> tuple[list[dict[str, object]], Past]:
    from slotreeve.model.data_info import short_name
    from slotreeve_client import Provider
    from slotreeve_client.history import Span, past_changes, service_at

    from slotreeve_cli.instances import provider_line

    past = await past_changes(transport, cluster, metas, service, Span(since_ms, until_ms + 1), most)
    rows: list[dict[str, object]] = []
    for name in sorted({change.data_info_id for _, change in past.changes}):
        before = (await service_at(transport, cluster, metas, name, since_ms)).records
        after = (await service_at(transport, cluster, metas, name, until_ms)).records
        for register_id in sorted(before.keys() | after.keys()):
            old, new = before.get(register_id), after.get(register_id)
            if old is not None and new is not None and (old.data, old.zone) == (new.data, new.zone):
                continue
            shown = new or old
            assert shown is not None
            what = "came" if old is None else "went" if new is None else "changed"
            provider = Provider(shown.register_id, shown.zone, shown.data or ())
            rows.append({"service": short_name(name), "what": what, "provider": provider_line(provider)})
    return rows, past


def why(
    what: Annotated[
        list[str], typer.Argument(help="A service, the address or id of an instance, slot and its number, or leader.")
    ],
    since: SinceOption = "1d",
    most: MostOption = 20,
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    output: OutputOption = Output.TABLE,
) -> None:
    """Why it is as it is: the story of a service, an instance, a slot or the leadership in sentences, the newest first,
    with times, reasons, and who noticed. Exit code 3 if nothing is known of it."""
    from slotreeve_client.tools import asked, run_async

    from slotreeve_cli.printing import as_text, print_rows
    from slotreeve_cli.times import shown_time

    begins, _ = _moments(since, "now")
    if what[0] == "slot" and not (len(what) == 2 and re.fullmatch(r"\d{1,6}", what[1])):
        raise typer.BadParameter(f"{' '.join(what)}: expected slot and its number, e.g. slotreeve why slot 17")
    if what[0] != "slot" and len(what) != 1:
        raise typer.BadParameter(f"{' '.join(what)}: expected one service, instance, slot N or leader")
    lines, past = run_async(asked(lambda t: _story(t, cluster, meta, what, begins)))
    lines = sorted(set(lines), reverse=True)[:most]
    rows: list[dict[str, object]] = [{"at": shown_time(at), "at_ms": at, "what": text} for at, text in lines]
    if output is Output.JSON:
        print_rows(rows, output)
    else:
        for row in rows:
            print(f"{row['at']}  {as_text(row['what'])}")
    if not rows:
        typer.echo(f"nothing is known of {' '.join(what)} since then", err=True)
    _end(past, begins)
    if not rows:
        raise typer.Exit(NOT_FOUND)


async def _story(
    transport: Transport, cluster: str, metas: list[str], what: list[str], since_ms: int
) -> tuple[list[tuple[int, str]], Past]:
    from slotreeve_client.history import Span, past_changes, past_events
    from slotreeve_events.stories import decoded_event, move_sentences, sentence

    if what[0] in ("slot", "leader"):
        kinds = (
            ("table", "slots_wait", "slots_unreadable")
            if what[0] == "slot"
            else ("leader", "started", "stopped", "error", "critical", "alarm")
        )
        past = await past_events(transport, cluster, metas, Span(since_ms), kinds, 5_000)
        events = [decoded_event(event.event) for _, event in past.events]
        if what[0] == "leader":
            return [(e.at_ms, sentence(e)) for e in events if e.node.startswith("meta") or e.kind == "leader"], past
        return [(e.at_ms, text) for e in events for text in move_sentences(e, int(what[1]))], past
    past = await past_changes(transport, cluster, metas, what[0], Span(since_ms))
    lines = _change_lines(past, "")
    if not lines:
        past = await past_changes(transport, cluster, metas, "", Span(since_ms), 50_000)
        lines = _change_lines(past, what[0])
    return lines, past


def _change_lines(past: Past, wanted: str) -> list[tuple[int, str]]:
    """The changes as sentences; with ``wanted`` those of an instance by address, id or register id."""
    from slotreeve.model.data_info import short_name
    from slotreeve_events.stories import change_sentence, provider_text

    return [
        (change.at_ms, f"{short_name(row.data_info_id)}: {change_sentence(change)} Told by {server}.")
        for server, row in past.changes
        for change in row.changes
        if not wanted or wanted in re.split(r"[ (),]", f"{provider_text(change)} {change.register_id}")
    ]


def _span(since_ms: int, until_ms: int | None) -> Span:
    from slotreeve_client.history import Span

    return Span(since_ms) if until_ms is None else Span(since_ms, until_ms)


def _moments(since: str, until: str) -> tuple[int, int]:
    import time

    from slotreeve_cli.times import parse_time

    now_ms = time.time_ns() // 1_000_000
    begins, ends = parse_time("--since", since, now_ms), parse_time("--until", until, now_ms)
    if begins > ends:
        raise typer.BadParameter(f"{since} is later than {until}; expected the earlier time first")
    return begins, ends


def _end(past: Past, since_ms: int = 0) -> None:
    """Say what is missing. Exit code 1 if a server did not answer."""
    from slotreeve_events.stories import begins_text

    from slotreeve_cli.times import shown_time

    if since_ms and past.begins_ms > since_ms:
        typer.echo(begins_text(shown_time(past.begins_ms)), err=True)
    for name, lost in past.lost.items():
        typer.echo(f"{name} could not write {lost} events since its start", err=True)
    say_silent(past.silent)


def say_silent(silent: Mapping[str, str]) -> None:
    """Say which servers did not tell of the past, and end with exit code 1 if there are any."""
    from slotreeve_events.stories import silent_text

    for server, reason in silent.items():
        typer.echo(silent_text([server], reason), err=True)
    if silent:
        raise typer.Exit(1)
