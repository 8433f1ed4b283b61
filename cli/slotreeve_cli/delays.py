"""``slotreeve delays``: how long changes take, and who lags and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from slotreeve_cli.options import (
    DEFAULT_META,
    NOT_FOUND,
    ClusterOption,
    GatewayOption,
    MetaOption,
    Output,
    OutputOption,
    Rows,
    TokenFileOption,
)

if TYPE_CHECKING:
    from slotreeve_client.delays import DelaysReport

    from slotreeve_cli.through_gateway import ThroughGateway

MOST_SHOWN = 20


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("delays", epilog="Examples: slotreeve delays  |  slotreeve delays com.example.Greeter -o json")(delays)


def delays(
    service: Annotated[str, typer.Argument(help="Only who lags of this service; and its version at each server.")] = "",
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    gateway: GatewayOption = "",
    token_file: TokenFileOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """How long changes took in the last five minutes, stage by stage, against the objective; who lags now, and why.
    Exit code 1 where the objective is missed or a server is silent, 3 if no server knows SERVICE."""
    from slotreeve_cli.printing import print_json
    from slotreeve_cli.through_gateway import gateway_of

    report = _report(meta, cluster, service, gateway_of(gateway, token_file))
    if output is Output.JSON:
        print_json(report)
    else:
        _show(report, service)
    for server, why in report.silent.items():
        typer.echo(f"{server} does not tell of delays: {why}", err=True)
    if report.silent or report.burning:
        raise typer.Exit(1)
    if service and not report.service:
        typer.echo(f"no server has a subscriber of {service}", err=True)
        raise typer.Exit(NOT_FOUND)


def _report(addresses: list[str], cluster: str, service: str, through: ThroughGateway | None) -> DelaysReport:
    from slotreeve_client.delays import DelaysReport, cluster_delays, delays_report
    from slotreeve_client.tools import asked, run_async

    if through is not None:
        return through.read("delays", DelaysReport, service=service)
    return delays_report(run_async(asked(lambda transport: cluster_delays(transport, cluster, addresses, service))))


def _show(report: DelaysReport, service: str) -> None:
    """Print it for people. The text that servers say is shown without control characters."""
    from msgspec.structs import asdict

    from slotreeve_cli.printing import as_text, print_rows

    if report.delay_ms is not None and report.share is not None:
        typer.echo(f"Wanted: {100 * report.share:g} % of the pushes within {report.delay_ms:g} ms.")
        typer.echo("\n".join(map(as_text, report.burning)) or "It is kept.")
        print_rows(_windows(report), Rows.TABLE)
    if service:
        typer.echo()
        print_rows(
            [
                {
                    "server": one.server,
                    "is": "leader" if one.is_leader else "session",
                    "has": "newest" if one.is_newest else "older",
                    "version": one.version,
                    "subscribers": one.subscribers,
                    "behind": one.behind,
                    "last_ms": _ways(one.last_ms),
                    "worst_ms": _ways(one.worst_ms),
                }
                for one in report.service
            ],
            Rows.TABLE,
            empty=f"no server has a subscriber of {as_text(service)}",
        )
    typer.echo()
    print_rows([asdict(one) for one in report.stages], Rows.TABLE, empty="no server tells of delays")
    typer.echo()
    shown = [asdict(one) for one in report.lagging[:MOST_SHOWN]]
    print_rows(shown, Rows.TABLE, title="who lags", empty="nobody lags")
    if len(report.lagging) > MOST_SHOWN:
        typer.echo(f"and {len(report.lagging) - MOST_SHOWN} more: -o json has all")


def _windows(report: DelaysReport) -> list[dict[str, object]]:
    """A row for each session server: the shortest window in full, and how fast each window burns."""
    rows: dict[str, dict[str, object]] = {}
    for one in report.windows:
        last = f"{one.seconds / 60:g} min" if one.seconds < 3_600 else f"{one.seconds / 3_600:g} h"
        row = rows.setdefault(one.server, {"server": one.server, f"pushed {last}": one.pushed, "late": one.late})
        row[f"burn {last}"] = one.burn_rate
    return list(rows.values())


def _ways(told: tuple[float, float] | None) -> str:
    return "" if told is None else f"{told[0]:g}+{told[1]:g}"
