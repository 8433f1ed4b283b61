"""Templates, and the words and numbers in them."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.resources import files
from urllib.parse import quote, urlencode

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup
from slotreeve.model.data_info import short_name
from slotreeve.model.datum import COUNTER_BITS
from slotreeve_protocol.live_settings import LIVE_SETTINGS

from slotreeve_face_console.answers import PACKAGE
from slotreeve_face_console.navigation import NAVIGATION

PIECES = "pieces.html"


def time_text(at_ms: int) -> str:
    """A moment of the wall clock, for people."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%S UTC")


def moment_text(at_ms: int) -> str:
    """A moment of the wall clock with its day, for people."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def act_link(act: str, **fields: str) -> str:
    """Where an act is previewed."""
    return f"/ui/act?{urlencode({'act': act, **fields})}"


def service_path(data_info_id: str) -> str:
    """The page of a service."""
    return f"/ui/services/{quote(short_name(data_info_id), safe='')}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """``1 slot``, ``2 slots``."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def age_text(seconds: float) -> str:
    """How long ago something was, coarsely."""
    if seconds < 120:
        return f"{max(0, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3600:.0f} h"


def version_text(version: int) -> str:
    """The version of a datum: the epoch of the slot's leader, and its counter."""
    return f"{version >> COUNTER_BITS}.{version & (1 << COUNTER_BITS) - 1}"


class Rendering:
    """Makes HTML. Everything is escaped but pieces, which templates have made.

    Args:
        cluster: name of the cluster, which each page shows.
        acts: whether operators may act.

    Attributes:
        acts: the same.
    """

    def __init__(self, cluster: str, acts: bool) -> None:
        self.acts = acts
        self._templates = _environment(cluster, acts)

    def page(self, template: str, values: Mapping[str, object]) -> str:
        """A whole page."""
        return self._templates.get_template(template).render(values)

    def piece(self, macro: str, *values: object) -> str:
        """One piece of a page, by a macro of ``pieces.html``."""
        made = getattr(self._templates.get_template(PIECES).module, macro)
        return str(made(*values)).strip()

    def sentences(self, texts: Iterable[str], otherwise: str, tone: str = "") -> dict[str, str]:
        """Sentences as items of a list; ``otherwise`` where there are none."""
        found = {text: self.piece("sentence", text, text, tone) for text in texts}
        return found or {"none": self.piece("sentence", "none", otherwise, "quiet")}

    def rows_none(self, text: str, columns: int) -> dict[str, str]:
        """The one row of a table that has no rows: why, over ``columns`` columns."""
        return {"none": self.piece("empty_row", text, columns)}


@functools.cache
def _environment(cluster: str, acts: bool) -> Environment:
    """The templates, each of which is compiled when it is used first. Gateways of one process share them."""
    made = Environment(
        loader=FunctionLoader(_source),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {
        "time": time_text,
        "moment": moment_text,
        "service": short_name,
        "service_path": service_path,
        "number": lambda number: f"{number:,}",
        "age": age_text,
        "counted": counted,
        "version": version_text,
        "piece": Markup,
    }
    made.globals |= {"cluster": cluster, "navigation": NAVIGATION, "acts": acts, "act_link": act_link}
    made.globals["live_settings"] = tuple(LIVE_SETTINGS.values())
    return made


def _source(name: str) -> str | None:
    template = files(PACKAGE) / "templates" / name
    return template.read_text(encoding="utf-8") if template.is_file() else None
