"""``slotreeve plugins list|check|new``: what is installed, whether it can be used, and how to begin with another."""

from __future__ import annotations

from typing import Annotated

import typer

from slotreeve_cli.new_plugin import new
from slotreeve_cli.options import Rows, RowsOption


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="Elections, slot functions, assigners, balancers, transports, faces.")
    group.command("list", epilog="Example: slotreeve plugins list -o json")(list_plugins)
    group.command("check", epilog="Example: slotreeve plugins check even")(check)
    example = "slotreeve plugins new balancer round-table  |  slotreeve plugins new face stock --name stock_list"
    group.command("new", epilog=f"Examples: {example}")(new)
    app.add_typer(group, name="plugins", no_args_is_help=True)


def list_plugins(output: RowsOption = Rows.TABLE) -> None:
    """Every offer of every installed plugin, and the broken ones with the reason."""
    from slotreeve.catalogue import Catalogue

    from slotreeve_cli.printing import print_json, print_rows

    catalogue = Catalogue.load()
    rows: list[dict[str, object]] = [
        {
            "port": str(entry.port),
            "name": entry.offer.name,
            "api": ".".join(map(str, entry.offer.api_version)),
            "from": entry.source,
            "summary": entry.offer.summary,
        }
        for entry in sorted(catalogue.listed, key=lambda e: (e.port, e.offer.name))
    ]
    broken: list[dict[str, object]] = [
        {"plugin": b.plugin, "from": b.source, "broken because": b.reason} for b in catalogue.broken
    ]
    if output is Rows.JSON:
        print_json({"offers": rows, "broken": broken})
        return
    print_rows(rows, output)
    if broken:
        print_rows(broken, output, title="\nbroken")


def check(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Only offers of these names.")] = None,
) -> None:
    """Load every plugin, read each offer's options model with its defaults. Exit code 2 if one cannot be used."""
    from slotreeve.catalogue import Catalogue
    from slotreeve.errors import PluginError

    from slotreeve_cli.printing import print_rows

    catalogue = Catalogue.load()
    chosen = [entry for entry in catalogue.listed if not names or entry.offer.name in names]
    if missing := set(names or ()) - {entry.offer.name for entry in chosen}:
        raise PluginError(f"no plugin offers {', '.join(sorted(missing))}; see slotreeve plugins list")
    problems = [] if names else [f"{b.plugin} of {b.source}: {b.reason}" for b in catalogue.broken]
    rows: list[dict[str, object]] = []
    for entry in chosen:
        try:
            catalogue.find(entry.port, entry.offer.name)
            verdict = "good"
            needed = [name for name, field in entry.offer.options.model_fields.items() if field.is_required()]
            if needed:
                verdict = f"good; needs {', '.join(needed)}"
        except PluginError as error:
            verdict = str(error)
            problems.append(verdict)
        rows.append({"port": str(entry.port), "name": entry.offer.name, "verdict": verdict})
    print_rows(rows, Rows.TABLE)
    if problems:
        raise PluginError("; ".join(problems))
