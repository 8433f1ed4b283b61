"""``slotreeve slot-of KEY``: which slot a key falls into."""

from __future__ import annotations

from typing import Annotated

import typer

from slotreeve_cli.options import Output, OutputOption


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("slot-of", epilog="Example: slotreeve slot-of com.example.Foo --slots 256 -o json")(slot_of)


def slot_of(
    key: Annotated[str, typer.Argument(help="The key as it is hashed: a whole data info id.")],
    function: Annotated[str, typer.Option("--function", help="Name of the slot function.")] = "crc32c",
    slots: Annotated[int, typer.Option("--slots", min=1, max=65_536, help="Number of slots.")] = 256,
    output: OutputOption = Output.TABLE,
) -> None:
    """The slot of KEY, by a slot function, without any cluster."""
    from slotreeve.offers import Port
    from slotreeve.ports import SlotFunction

    from slotreeve_cli.plan import build_unattached
    from slotreeve_cli.printing import print_json

    built = build_unattached(Port.SLOT_FUNCTION, function, slots)
    assert isinstance(built, SlotFunction)
    slot = built.slot_of(key)
    if output is Output.JSON:
        print_json({"slot": slot})
    else:
        typer.echo(slot)
