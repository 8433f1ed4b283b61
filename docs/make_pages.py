"""Writes the reference parts of settings.md, plugins.md, commands.md, counters.md and health.md from the code:
``python docs/make_pages.py``.

Everything between the two marks of a page is replaced; what stands around them is written by hand. With ``--check``
nothing is written, and the exit code is 1 if a page is not what the code says (tests/test_docs.py runs that).
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import typer.core
import typer.main
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from slotreeve import hookspecs
from slotreeve.catalogue import Catalogue
from slotreeve.configuration import PluginTables
from slotreeve.offers import Port
from slotreeve_cli.main import app
from slotreeve_protocol.live_settings import LIVE_SETTINGS
from slotreeve_servers.node.counted import BY_SERVER, TIMED, CounterKind
from slotreeve_servers.settings import Settings

DOCS = Path(__file__).resolve().parent
BEGIN, END = "<!-- made by make_pages.py -->", "<!-- end of what is made -->"
Command = typer.core.TyperCommand | typer.core.TyperGroup


def cell(text: str) -> str:
    """``text`` as one cell of a table."""
    return " ".join(text.replace("|", "\\|").split())


def sentence(text: str) -> str:
    """``text`` as one paragraph, without the escapes that the terminal's markup needs."""
    return " ".join(text.replace("\\[", "[").split())


def default_of(field: FieldInfo) -> str:
    """The default as it is written in TOML."""
    value = field.get_default(call_default_factory=True) if not field.is_required() else None
    if field.is_required():
        return "required"
    if isinstance(value, bool | int | float | str):
        return f"`{json.dumps(value)}`"
    return f"`{json.dumps(value, default=str)}`"


def limits_of(field: FieldInfo) -> str:
    """Bounds and patterns that pydantic checks."""
    words = {"gt": "> ", "ge": ">= ", "lt": "< ", "le": "<= ", "min_length": "length >= ", "max_length": "length <= "}
    found = [
        f"{word}{getattr(rule, name)}"
        for rule in field.metadata
        for name, word in words.items()
        if getattr(rule, name, None) is not None
    ]
    found += [f"`{rule.pattern}`" for rule in field.metadata if getattr(rule, "pattern", None)]
    return cell(", ".join(found))


def table_of(model: type[BaseModel], prefix: str) -> Iterator[str]:
    """One row for each setting of ``model``."""
    yield "| setting | default | limits | what it does |"
    yield "|---|---|---|---|"
    for name, field in model.model_fields.items():
        yield f"| `{prefix}.{name}` | {default_of(field)} | {limits_of(field)} | {cell(field.description or '')} |"
    yield ""


def settings() -> Iterator[str]:
    """Every table of the configuration, then every option of the built-in plugins."""
    for section, field in Settings.model_fields.items():
        model = field.annotation
        assert isinstance(model, type)
        assert issubclass(model, BaseModel)
        if not issubclass(model, PluginTables):
            yield f"## `[{section}]`\n\n{inspect.getdoc(model)}\n"
            yield from table_of(model, section)
    yield from live_settings()
    yield "## Plugins\n\nWhich plugin fills a port, and the options of each, in a table named after it."
    yield "A table of another name says with the key `plugin` which one it is for. So one can be configured twice.\n"
    yield "| setting | default | built in |\n|---|---|---|"
    catalogue = Catalogue.load()
    for port in Port:
        names = ", ".join(f"`{name}`" for name in catalogue.names(port))
        chosen = json.dumps(Settings.model_fields[port.value].default.use)
        yield f"| `{port}.use` | `{chosen}` | {names} |"
    yield ""
    for port in Port:
        for entry in sorted((e for e in catalogue.listed if e.port is port), key=lambda e: e.offer.name):
            if entry.offer.options.model_fields:
                yield f"### `[{port}.{entry.offer.name}]`\n\n{entry.offer.summary}.\n"
                yield from table_of(entry.offer.options, f"{port}.{entry.offer.name}")


def live_settings() -> Iterator[str]:
    """What may be changed while servers run, with the bounds."""
    yield "## While servers run\n"
    yield "`slotreeve settings set` changes these at once, above every file, flag and variable, until they are unset;"
    yield "[operating.md](operating.md#settings-while-servers-run) says how."
    yield "\n| setting | may be changed to |\n|---|---|"
    for setting in LIVE_SETTINGS.values():
        yield f"| `{setting.name}` | {setting.bounds} |"
    yield ""


def plugins() -> Iterator[str]:
    """Ports with their hooks and built-in offers, and the hooks that observe."""
    hooks = {name: hook for name, hook in vars(hookspecs).items() if name.startswith("slotreeve_")}
    offering = {f"slotreeve_{port}s": port for port in Port}
    catalogue = Catalogue.load()
    yield "## Ports\n\n| port | hook that offers | what an offer builds | its contract |\n|---|---|---|---|"
    for name, port in offering.items():
        protocol = port.protocol
        module = protocol.__module__.replace(".", "/")
        yield (
            f"| `{port}` | `{name}` | `{protocol.__name__}`: {cell((inspect.getdoc(protocol) or '').splitlines()[0])} "
            f"| [{protocol.__module__}](../kernel/{module}.py) |"
        )
    yield "\n## Built-in offers\n\n| port | offer | what it does |\n|---|---|---|"
    for entry in sorted(catalogue.listed, key=lambda e: (list(Port).index(e.port), e.offer.name)):
        yield f"| `{entry.port}` | `{entry.offer.name}` | {cell(entry.offer.summary)} |"
    yield "\n## Hooks that observe\n"
    yield "| hook | arguments | when it is called |\n|---|---|---|"
    for name, hook in hooks.items():
        if name not in offering:
            given = ", ".join(f"`{p.name}: {p.annotation}`" for p in inspect.signature(hook).parameters.values())
            yield f"| `{name}` | {cell(given)} | {cell(inspect.getdoc(hook) or '')} |"
    yield ""


def commands() -> Iterator[str]:
    """Every command with its arguments and options."""

    def below(command: Command, path: str) -> Iterator[str]:
        if isinstance(command, typer.core.TyperGroup):
            for name in sorted(command.commands):
                found = command.commands[name]
                assert isinstance(found, Command)
                yield from below(found, f"{path} {name}")
            return
        yield f"## `{path}`\n\n{sentence(command.help or '')}\n"
        yield from parameters(command)
        if command.epilog:
            yield f"{sentence(command.epilog)}\n"

    root = typer.main.get_command(app)
    assert isinstance(root, Command)
    yield from below(root, "slotreeve")


def parameters(command: Command) -> Iterator[str]:
    """The arguments and options of one command."""
    rows = []
    for parameter in command.params:
        if isinstance(parameter, typer.core.TyperArgument):
            name = f"`{parameter.metavar or (parameter.name or '').upper()}`"
        elif "--help" in parameter.opts:
            continue
        else:
            name = ", ".join(f"`{option}`" for option in [*parameter.opts, *parameter.secondary_opts])
        default = parameter.default
        shown = "" if default in (None, [], ()) or parameter.required or callable(default) else f"`{plain(default)}`"
        text = getattr(parameter, "help", "") or ""
        rows.append(f"| {cell(name)} | {cell(shown)} | {cell(text)} |")
    if rows:
        yield "| | default | |\n|---|---|---|"
        yield from rows
        yield ""


def plain(value: object) -> str:
    """A default as one writes it on the command line."""
    if isinstance(value, list | tuple):
        return ", ".join(plain(each) for each in value)
    return str(getattr(value, "value", value))


def counters() -> Iterator[str]:
    """Every counter, by the servers that have it, with its name as a metric."""
    for title, part in BY_SERVER.items():
        yield f"## {title}\n"
        yield "| counter | meaning | metric | zero in a quiet cluster |\n|---|---|---|---|"
        for name, counted in part.items():
            suffix = "_total" if counted.kind is CounterKind.COUNTER else ""
            quiet = "yes" if counted.quiet else ""
            yield f"| `{name}` | {cell(counted.meaning)} | `slotreeve_{name}{suffix}` | {quiet} |"
        yield ""


def timings() -> Iterator[str]:
    """Every duration that servers measure."""
    yield "| metric | what is timed |\n|---|---|"
    for name, meaning in TIMED.items():
        yield f"| `slotreeve_{name}` | {cell(meaning)} |"


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "settings.md": settings,
    "plugins.md": plugins,
    "commands.md": commands,
    "counters.md": counters,
    "health.md": timings,
}


def made(page: str) -> str:
    """The whole page, with its reference part as the code has it now."""
    text = (DOCS / page).read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    body = "\n".join(PAGES[page]()).strip()
    return f"{before}{BEGIN}\n\n{body}\n\n{END}{after}"


def main() -> int:
    """Write the pages, or with ``--check`` only compare them."""
    checking = "--check" in sys.argv[1:]
    old = [page for page in PAGES if made(page) != (DOCS / page).read_text(encoding="utf-8")]
    for page in old:
        if checking:
            print(f"docs/{page} is not what the code says; run: python docs/make_pages.py")
        else:
            (DOCS / page).write_text(made(page), encoding="utf-8")
    return 1 if checking and old else 0


if __name__ == "__main__":
    sys.exit(main())
