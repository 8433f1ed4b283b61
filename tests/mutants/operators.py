"""What may be changed in a module so that it should behave otherwise: one small change, one mutant."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
SIGNS: dict[type[ast.operator], tuple[str, str]] = {ast.Add: ("+", "-"), ast.Sub: ("-", "+")}
EXTREMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
LOGGING = {"debug", "info", "warning", "error", "exception", "log"}


@dataclass(frozen=True)
class Change:
    """A stretch of a module's text, in characters, and what replaces it."""

    start: int
    end: int
    new: str
    line: int

    def applied_to(self, text: str) -> str:
        """The text of the mutant."""
        return text[: self.start] + self.new + text[self.end :]


class Places:
    """Characters of a text by line and column of a syntax tree, whose columns count bytes."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def at(self, line: int, column: int) -> int:
        """The character at a line (from 1) and a column in bytes (from 0)."""
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Where a node begins and ends."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)


def changes(text: str) -> Sequence[Change]:
    """Every change of a module that is worth a try: none of what is only said (docstrings, logs, errors, types)."""
    places = Places(text)
    found: list[Change] = []
    for node in _behaviour(ast.parse(text)):
        found += _changes_of(node, text, places)
    return sorted(set(found), key=lambda change: (change.start, change.end, change.new))


def removals(text: str) -> Sequence[Change]:
    """What can be taken away of a module: each operand of ``and`` and ``or``, each condition (then it holds always, or
    never), each filter, and each call or assignment that is there for its effect."""
    places = Places(text)
    found = {change for node in _behaviour(ast.parse(text)) for change in _removals_of(node, text, places)}
    differ = [change for change in found if change.new != text[change.start : change.end]]
    return sorted(differ, key=lambda change: (change.start, change.end, change.new))


def choose(modules: Sequence[tuple[str, str]], count: int, seed: int) -> list[tuple[str, Change]]:
    """So many changes by chance, each in another part of a module, as (path, change). ``modules``: path and text."""
    rng = random.Random(seed)
    everything = [(path, change) for path, text in modules for change in changes(text)]
    rng.shuffle(everything)
    chosen: dict[tuple[str, int], tuple[str, Change]] = {}
    for path, change in everything:
        chosen.setdefault((path, change.line // 25), (path, change))
        if len(chosen) == count:
            break
    return list(chosen.values())


def _behaviour(tree: ast.Module) -> Iterator[ast.AST]:
    """Nodes within functions, without annotations, decorators, logs and what is raised or asserted.

    Sizes and times that stand outside of functions are left out: one more of them changes nothing that could be seen.
    """
    waiting: list[ast.AST] = [
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for line in node.body
    ]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.Raise() | ast.Assert():
                continue
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name))) if name in LOGGING:
                continue
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                continue
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                continue
            case ast.AnnAssign():
                waiting += [node.value] if node.value else []
                continue
        yield node
        waiting += ast.iter_child_nodes(node)


def _changes_of(node: ast.AST, text: str, places: Places) -> Iterator[Change]:
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARISONS:
            yield _between(places.span(left)[1], places.span(right)[0], text, COMPARISONS[type(op)], node.lineno)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in SIGNS:
            yield _between(places.span(left)[1], places.span(right)[0], text, SIGNS[type(sign)], node.lineno)
        case ast.BoolOp(values=[first, second, *_], op=op):
            words = ("and", "or") if isinstance(op, ast.And) else ("or", "and")
            yield _between(places.span(first)[1], places.span(second)[0], text, words, node.lineno)
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) if not isinstance(test, ast.NamedExpr):
            start, end = places.span(test)
            yield Change(start, end, f"not ({text[start:end]})", test.lineno)
        case ast.Call(func=ast.Name(id=name) as function) if name in EXTREMES:
            start, end = places.span(function)
            yield Change(start, end, EXTREMES[name], node.lineno)
        case ast.Constant(value=bool(value)):
            start, end = places.span(node)
            yield Change(start, end, str(not value), node.lineno)
        case ast.Constant(value=int(value)):
            start, end = places.span(node)
            yield Change(start, end, str(value + 1), node.lineno)
        case ast.Expr(value=ast.Call()) | ast.Expr(value=ast.Await()):
            start, end = places.span(node)
            yield Change(start, end, "pass", node.lineno)
        case ast.AugAssign():
            start, end = places.span(node)
            yield Change(start, end, "pass", node.lineno)
        case ast.Break() | ast.Continue():
            start, end = places.span(node)
            yield Change(start, end, "continue" if isinstance(node, ast.Break) else "break", node.lineno)


def _removals_of(node: ast.AST, text: str, places: Places) -> Iterator[Change]:
    if any(isinstance(inner, ast.NamedExpr) for inner in ast.walk(node) if isinstance(node, ast.expr)):
        return  # what it names is used elsewhere
    match node:
        case ast.BoolOp(values=values, op=op):
            word = " and " if isinstance(op, ast.And) else " or "
            operands = [f"({text[slice(*places.span(value))]})" for value in values]
            for number in range(len(operands)):
                rest = word.join([*operands[:number], *operands[number + 1 :]])
                yield Change(*places.span(node), f"({rest})", node.lineno)
        case ast.If(test=test) | ast.IfExp(test=test):
            if not any(isinstance(inner, ast.NamedExpr) for inner in ast.walk(test)):
                for held in ("True", "False"):
                    yield Change(*places.span(test), held, test.lineno)
        case ast.comprehension(ifs=filters):
            for given in filters:
                if not any(isinstance(inner, ast.NamedExpr) for inner in ast.walk(given)):
                    yield Change(*places.span(given), "True", given.lineno)
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign() | ast.Delete():
            yield Change(*places.span(node), "pass", node.lineno)
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield Change(*places.span(node), "pass", node.lineno)


def _between(start: int, end: int, text: str, words: tuple[str, str], line: int) -> Change:
    """An operator between two operands: parentheses and comments may stand there, too."""
    at = text.index(words[0], start, end)
    return Change(at, at + len(words[0]), words[1], line)
