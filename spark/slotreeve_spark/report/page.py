"""One HTML file with everything in it: headings, prose, tables, plots."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slotreeve_spark.report.numbers import number

STYLE = """
:root{color-scheme:light dark;--paper:#fff;--ink:#1c1c1c;--small:#555;--line:#ddd;--best:#e8f3e8;--noise:#f6f3e2;
--mark:#2864b4}
@media(prefers-color-scheme:dark){:root{--paper:#16181c;--ink:#e2e2e2;--small:#a2a2a2;--line:#3c4046;--best:#1e3a24;
--noise:#3a3520;--mark:#5b95e0}}
body{font:15px/1.5 system-ui,sans-serif;max-width:66rem;margin:2rem auto;padding:0 1rem;
color:var(--ink);background:var(--paper)}
table{border-collapse:collapse;margin:.6rem 0 1.4rem;font-size:13px;display:block;overflow-x:auto}
th,td{padding:.25rem .7rem;border-bottom:1px solid var(--line);text-align:left;white-space:nowrap}
td.n{text-align:right;font-variant-numeric:tabular-nums}
tr.best td{background:var(--best)}tr.noise td{background:var(--noise)}
figure{display:inline-block;margin:.5rem 1rem 1rem 0}figcaption{font-weight:600}
figure svg{max-width:100%;height:auto}
h2{margin-top:2.2rem;border-bottom:2px solid var(--mark)}.parameters{color:var(--small);font-size:13px}
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

    def parameters(self, values: Mapping[str, object]) -> None:
        """Names and values in small print: parameters, versions."""
        shown = "; ".join(
            f"{html.escape(_words(name))}: {html.escape(_listed(value))}" for name, value in values.items()
        )
        self.parts.append(f'<p class="parameters">{shown}</p>')

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

    def figure(self, caption: str, svg: str) -> None:
        """A plot with its caption; nothing if there is no plot."""
        if svg:
            self.parts.append(f"<figure><figcaption>{html.escape(caption)}</figcaption>{svg}</figure>")

    def as_html(self) -> str:
        """The whole file."""
        title = html.escape(self.title)
        return (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>'
            f"<body><h1>{title}</h1>{''.join(self.parts)}</body></html>\n"
        )


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
