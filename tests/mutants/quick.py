"""Which condition can be taken away without a test that misses it? Quick: a mutant takes a second or two.

``python -m tests.mutants.quick servers/slotreeve_servers/data/endings --tests tests/servers`` runs the tests once and
notes the lines of each. Then every removal (:func:`tests.mutants.operators.removals`) is tried in a forked process,
whose functions are replaced in place: the tests that execute its line run, the quickest first, until one fails. What
no test misses is a rule without a test, a line without a use, or something that only costs time.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, NoReturn

import pytest
from hypothesis import settings

from tests.lanes.lanes import ROOT
from tests.mutants.operators import Change, removals

OPTIONS = (
    *("-q", "-x", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts="),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # what is imported before stays as it is
)
Functions = dict[tuple[str, str, int], list[FunctionType]]
"""By file, name and first line."""
LONGEST_SECONDS = 60
"""A run that takes longer has no end: something missed the mutant."""


@dataclass
class Trace:
    """A pytest plugin: which tests execute which lines of some files, and how long each test takes.

    Attributes:
        tests: ids of tests, by file and line. ``seconds``: by id.
    """

    files: frozenset[str]
    tests: dict[tuple[str, int], list[str]] = field(default_factory=lambda: defaultdict(list))
    seconds: dict[str, float] = field(default_factory=dict)
    _lines: set[tuple[str, int]] = field(default_factory=set)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """One test."""
        self._lines.clear()
        began = time.monotonic()
        for start in (sys.settrace, threading.settrace):
            start(self._enter)
        try:
            return (yield)
        finally:
            for end in (sys.settrace, threading.settrace):
                end(None)
            self.seconds[item.nodeid] = time.monotonic() - began
            for line in self._lines:
                self.tests[line].append(item.nodeid)

    def _enter(self, frame: FrameType, event: str, arg: object) -> Any:
        return self._step(frame, event, arg) if frame.f_code.co_filename in self.files else None

    def _step(self, frame: FrameType, event: str, arg: object) -> Any:
        self._lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self._step

    def of(self, file: str, lines: range, most_seconds: float) -> list[str]:
        """The tests that execute one of these lines, the quickest first, as long as they take together."""
        found = {test for line in lines for test in self.tests.get((file, line), ())}
        chosen: list[str] = []
        left = most_seconds
        for test in sorted(found, key=lambda one: (self.seconds[one], one)):
            left -= self.seconds[test]
            if left < 0 and chosen:
                break
            chosen.append(test)
        return chosen


def functions_of(files: frozenset[str]) -> Functions:
    """Every function of these files that is loaded."""
    found: Functions = defaultdict(list)
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename in files:
            found[_key(each.__code__)].append(each)
    return found


def replace_code(functions: Functions, file: str, text: str) -> int:
    """Let the functions of a file do what ``text`` says. Returns how many are others now; those that would need other
    variables of a function around them stay."""
    count = 0
    waiting = [compile(text, file, "exec", dont_inherit=True)]
    while waiting:
        code = waiting.pop()
        waiting += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
        for function in functions.get(_key(code), ()):
            old = function.__code__
            is_same = (old.co_code, old.co_consts, old.co_names) == (code.co_code, code.co_consts, code.co_names)
            if not is_same and old.co_freevars == code.co_freevars:
                function.__code__ = code
                count += 1
    return count


def _key(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def is_missed(functions: Functions, file: str, text: str, tests: list[str]) -> bool:
    """Whether a test fails, or does not end, once the file has this text. In a forked process, so that this one stays
    as it is.

    Raises:
        RuntimeError: pytest could not run the tests.
    """
    child = os.fork()
    if not child:
        _run(functions, file, text, tests)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code > pytest.ExitCode.TESTS_FAILED:
        raise RuntimeError(f"pytest ended with {code} for {file}; expected 0 or 1 of {len(tests)} tests")
    return code != 0  # below 0: a signal has ended it


def _run(functions: Functions, file: str, text: str, tests: list[str]) -> NoReturn:
    """In the forked process. What cannot be replaced in place is not tried: that counts as missed."""
    code = int(pytest.ExitCode.INTERNAL_ERROR)
    try:
        signal.alarm(LONGEST_SECONDS)  # ends it, also where nobody waits for it any more
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        code = int(pytest.main([*OPTIONS, *tests])) if replace_code(functions, file, text) else 1
    finally:
        os._exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what no test misses; 0 if there is nothing of the kind."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.quick", description=__doc__.partition("\n")[0])
    parser.add_argument("paths", nargs="+", help="modules, or folders of them, from the root of the checkout")
    parser.add_argument("--tests", nargs="+", default=["tests/servers"], help="where to look for tests")
    parser.add_argument(
        "--seconds", type=float, default=15.0, help="of tests for each mutant, as they took while traced"
    )
    given = parser.parse_args(arguments)
    found = [
        file
        for path in given.paths
        for file in ([ROOT / path] if path.endswith(".py") else (ROOT / path).rglob("*.py"))
    ]
    files = {str(file): file.read_text(encoding="utf-8") for file in sorted(found)}
    trace = Trace(frozenset(files))
    # What a mutant fails by is no example for the module as it is, and traced tests are slow.
    settings.register_profile("mutants", database=None, deadline=None)
    settings.load_profile("mutants")
    if pytest.main([*OPTIONS, *given.tests], plugins=[trace]):
        print("the tests fail without a mutant, too", file=sys.stderr)
        return 2
    functions = functions_of(trace.files)
    gc.freeze()
    tried = survivors = 0
    for file, text in files.items():
        for change in removals(text):
            tried += 1
            tests = trace.of(file, _lines_of(text, change), given.seconds)
            if not tests or not is_missed(functions, file, change.applied_to(text), tests):
                survivors += 1
                print(_told(file, text, change, len(tests)), flush=True)
    print(f"{tried} removals, {survivors} that no test misses")
    return 1 if survivors else 0


def _lines_of(text: str, change: Change) -> range:
    return range(text.count("\n", 0, change.start) + 1, text.count("\n", 0, change.end) + 2)


def _told(file: str, text: str, change: Change, tests: int) -> str:
    before, place = text[change.start : change.end], f"{Path(file).relative_to(ROOT)}:{change.line}"
    return f"{place} ({tests} tests): {before}  ->  {change.new}"


if __name__ == "__main__":
    sys.exit(main())
