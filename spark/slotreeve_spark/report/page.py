"""One HTML file with everything in it: headings, prose, tables, plots."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from slotreeve_spark.report.numbers import number

STYLE = """
:root{color-scheme:light dark;--paper:#fff;--ink:#1c1c1c;--small:#555;--line:#ddd;--best:#e8f3e8;--noise:#f6f3e2;
--mark:#2864b4;--card:#f7f8fa}
@media(prefers-color-scheme:dark){:root{--paper:#16181c;--ink:#e2e2e2;--small:#a2a2a2;--line:#3c4046;--best:#1e3a24;
--noise:#3a3520;--mark:#5b95e0;--card:#1d2025}}
*{box-sizing:border-box}
body{font:15px/1.5 system-ui,sans-serif;max-width:82rem;margin:0 auto;padding:1.5rem 1.5rem 4rem;
color:var(--ink);background:var(--paper)}
h1{font-size:1.5rem;margin:.5rem 0}
h2{font-size:1.15rem;margin:2.4rem 0 .6rem;border-bottom:2px solid var(--mark);padding-bottom:.2rem}
h3{font-size:1rem;margin:1.4rem 0 .4rem}
p{max-width:52rem}
.verdict{font-size:1.15rem;line-height:1.45;border-left:4px solid var(--mark);background:var(--card);
padding:.7rem 1rem;margin:.6rem 0;max-width:none}
.legend{display:flex;flex-wrap:wrap;gap:.3rem 1.4rem;list-style:none;padding:0;margin:.8rem 0}
.legend i{display:inline-block;width:.8rem;height:.8rem;border-radius:2px;margin-right:.45rem;vertical-align:-1px}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,25rem),1fr));gap:1rem}
.wide{grid-template-columns:repeat(auto-fill,minmax(min(100%,36rem),1fr))}.one{grid-template-columns:1fr}
figure{margin:0;padding:.7rem .9rem;background:var(--card);border:1px solid var(--line);border-radius:6px}
figcaption{font-weight:600;margin-bottom:.3rem}
figcaption small{display:block;font-weight:400;color:var(--small);line-height:1.3}
figure svg{display:block;width:100%;height:auto}
details{margin:1rem 0}summary{cursor:pointer;font-weight:600}
table{border-collapse:collapse;margin:.6rem 0 1rem;font-size:13px;max-width:100%}
th,td{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top;
overflow-wrap:anywhere}
th{font-weight:600}td.n{text-align:right;font-variant-numeric:tabular-nums;overflow-wrap:normal}
tr.best td{background:var(--best)}tr.noise td{background:var(--noise)}
.small{color:var(--small);font-size:13px;max-width:none}
@media print{body{max-width:none}details{display:none}figure{break-inside:avoid}}
"""
_MARKS = {"best": "best", "within noise": "noise"}


@dataclass
class Page:
    """A report in the making; :meth:`as_html` is the whole file."""

    title: str
    parts: list[str] = field(default_factory=list)

    def heading(self, text: str) -> None:
        """A section begins."""
        self.parts.append(f"<h2>{html.escape(text)}</h2>")

    def paragraph(self, text: str) -> None:
        """Prose."""
        self.parts.append(f"<p>{html.escape(text)}</p>")

    def subheading(self, text: str) -> None:
        """A part of a section begins."""
        self.parts.append(f"<h3>{html.escape(text)}</h3>")

    def verdict(self, text: str) -> None:
        """What the whole came to, in a sentence."""
        self.parts.append(f'<p class="verdict">{html.escape(text)}</p>')

    def legend(self, colours: Mapping[str, str]) -> None:
        """The colour of each competitor, which is the same in all plots."""
        shown = "".join(
            f'<li><i style="background:{colour}"></i>{html.escape(name)}</li>' for name, colour in colours.items()
        )
        self.parts.append(f'<ul class="legend">{shown}</ul>')

    def parameters(self, values: Mapping[str, object]) -> None:
        """Names and values in small print: parameters, versions."""
        shown = "; ".join(
            f"{html.escape(_words(name))}: {html.escape(_listed(value))}" for name, value in values.items()
        )
        self.parts.append(f'<p class="small">{shown}</p>')

    @contextmanager
    def folded(self, title: str) -> Iterator[None]:
        """What is added meanwhile is hidden until somebody opens it."""
        outside, self.parts = self.parts, []
        try:
            yield
        finally:
            inside, self.parts = self.parts, outside
            if inside:
                body = "".join(inside)
                self.parts.append(f"<details><summary>{html.escape(title)}</summary>{body}</details>")

    def table(self, rows: Sequence[Mapping[str, object]], empty: str = "nothing") -> None:
        """Equal-shaped rows; a row whose ``verdict`` is best or within noise is marked."""
        if not rows:
            self.paragraph(empty)
            return
        head = "".join(f"<th>{html.escape(_words(name))}</th>" for name in rows[0])
        body = []
        for row in rows:
            mark = _MARKS.get(str(row.get("verdict")))
            opened = f'<tr class="{mark}">' if mark else "<tr>"
            body.append(opened + "".join(_cell(value) for value in row.values()) + "</tr>")
        self.parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>")

    def figures(self, plots: Iterable[tuple[str, str]], width: str = "") -> None:
        """Plots beside each other, each a caption and the SVG; those without a plot are left out. Of a caption, what
        follows the first line is small. ``width``: empty for small ones, ``wide``, or ``one`` for one in a row."""
        shown = [f"<figure>{_caption(caption)}{svg}</figure>" for caption, svg in plots if svg]
        if shown:
            self.parts.append(f'<div class="grid {width}">{"".join(shown)}</div>')

    def as_html(self) -> str:
        """The whole file."""
        title = html.escape(self.title)
        return (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            f'<meta name="viewport" content="width=device-width,initial-scale=1"><style>{STYLE}</style></head>'
            f"<body><h1>{title}</h1>{''.join(self.parts)}</body></html>\n"
        )


def _caption(text: str) -> str:
    first, _, rest = text.partition("\n")
    small = f"<small>{html.escape(rest)}</small>" if rest else ""
    return f"<figcaption>{html.escape(first)}{small}</figcaption>"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _listed(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_listed, value))
    return str(value)


def _cell(value: object) -> str:
    if value is None:
        return "<td>-</td>"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"<td>{html.escape(str(value))}</td>"
    return f'<td class="n">{value:,}</td>' if isinstance(value, int) else f'<td class="n">{number(value)}</td>'
