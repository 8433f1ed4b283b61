"""The page of a soak: what ran, what failed and how to repeat it, what was not reached."""

from __future__ import annotations

import dataclasses
import json
from html import escape
from pathlib import Path

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse}td,th{border:1px solid #999;padding:.2rem .6rem;text-align:left}"
    "pre{overflow:auto;border:1px solid #999;padding:.5rem}:root{color-scheme:light dark}"
)


@dataclasses.dataclass(frozen=True)
class Failure:
    """A failure: its name, the command that repeats it, and what was seen."""

    name: str
    command: str
    text: str


@dataclasses.dataclass
class Part:
    """A part of a soak. ``ran`` and ``missed``: names of tests, or of scenarios with their seeds. ``seconds_of``: what
    each test took."""

    name: str
    seconds: float
    ran: list[str]
    failures: list[Failure]
    missed: list[str]
    seconds_of: dict[str, float] = dataclasses.field(default_factory=dict)

    @property
    def line(self) -> str:
        """The part in one line."""
        return (
            f"{self.name}: {len(self.ran)} ran in {self.seconds / 60:.1f} min, {len(self.failures)} failed, "
            f"{len(self.missed)} not reached"
        )


@dataclasses.dataclass
class Soak:
    """A whole soak; ``seed`` is the first fresh one."""

    began: str
    commit: str
    minutes: float
    seed: int
    parts: list[Part]
    interrupted: bool = False

    @property
    def failures(self) -> list[Failure]:
        """All failures."""
        return [failure for part in self.parts for failure in part.failures]

    @property
    def summary(self) -> str:
        """The soak in some lines."""
        lines = [part.line for part in self.parts]
        lines += [f"FAILED {failure.name}\n  {failure.command}" for failure in self.failures]
        if self.interrupted:
            lines.append("interrupted: what was not reached is on the page")
        return "\n".join(lines)


def html_of(soak: Soak) -> str:
    """The page, which needs nothing from elsewhere."""
    rows = "".join(
        f"<tr><td>{escape(part.name)}</td><td>{len(part.ran)}</td><td>{len(part.failures)}</td>"
        f"<td>{len(part.missed)}</td><td>{part.seconds / 60:.1f}</td></tr>"
        for part in soak.parts
    )
    failures = "".join(
        f"<h3>{escape(failure.name)}</h3><p>Repeat it: <code>{escape(failure.command)}</code></p>"
        f"<pre>{escape(failure.text)}</pre>"
        for failure in soak.failures
    )
    missed = "".join(f"<li>{escape(name)}</li>" for part in soak.parts for name in part.missed)
    ran = "".join(f"<li>{escape(name)}</li>" for part in soak.parts for name in part.ran)
    end = "It was interrupted." if soak.interrupted else "It came to its end."
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Soak of {escape(soak.commit)}</title>'
        f"<style>{STYLE}</style><h1>Soak of {escape(soak.commit)}</h1>"
        f"<p>Began {escape(soak.began)}, {soak.minutes:g} minutes, first fresh seed {soak.seed}. {end}</p>"
        f"<table><tr><th>part</th><th>ran</th><th>failed</th><th>not reached</th><th>minutes</th></tr>{rows}</table>"
        f"<h2>Failed</h2>{failures or '<p>Nothing.</p>'}"
        f"<h2>Not reached</h2>{f'<ul>{missed}</ul>' if missed else '<p>Everything was.</p>'}"
        f"<h2>Ran</h2><details><summary>all names</summary><ul>{ran}</ul></details></html>\n"
    )


def write_pages(soak: Soak, folder: Path) -> Path:
    """Write ``soak.html`` and ``soak.json``; return the former."""
    (folder / "soak.json").write_text(json.dumps(dataclasses.asdict(soak), indent=1) + "\n", encoding="utf-8")
    page = folder / "soak.html"
    page.write_text(html_of(soak), encoding="utf-8")
    return page
