"""Plugins on executors: by entry point where installed, else as wheels that are shipped with the job."""

from __future__ import annotations

import atexit
import functools
import random
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from slotreeve.catalogue import Catalogue
from slotreeve.clock import Clock, Timer
from slotreeve.errors import ConfigError, PluginError
from slotreeve.offers import Port
from slotreeve.ports import Context

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

_DEFAULTS: Mapping[str, object] = {}


def open_wheels(wheels: Sequence[Path]) -> list[Path]:
    """Put pure Python wheels on the import path of this process, entry points included; what to :func:`ship`.

    Spark leaves a ``.whl`` alone, but takes the same file as ``.zip``. The copy keeps the wheel's name, so that two
    wheels do not meet; it is deleted when this process ends.

    Raises:
        ConfigError: a file is missing or is no wheel of pure Python.
    """
    copies = []
    for wheel in wheels:
        _must_be_a_pure_wheel(wheel)
        directory = Path(tempfile.mkdtemp(prefix="slotreeve-"))
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        copy = directory / f"{wheel.stem}.zip"
        shutil.copyfile(wheel, copy)
        sys.path.insert(1, str(copy))
        copies.append(copy)
    installed.cache_clear()
    return copies


def ship(session: SparkSession, copies: Sequence[Path]) -> None:
    """Put what :func:`open_wheels` returned on the import path of every executor. Executors must have the same Python,
    and compiled dependencies installed."""
    for copy in copies:
        session.sparkContext.addPyFile(str(copy))


def _must_be_a_pure_wheel(wheel: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile) as error:
        raise ConfigError(f"--plugin-wheel {wheel}: cannot be read as a wheel: {error}") from None
    if not any(name.endswith(".dist-info/entry_points.txt") for name in names):
        raise ConfigError(f"--plugin-wheel {wheel}: it has no entry points, so it offers no plugin")
    if compiled := [name for name in names if name.endswith((".so", ".pyd"))]:
        raise ConfigError(
            f"--plugin-wheel {wheel}: {compiled[0]} is compiled code, which cannot be imported from a shipped file; "
            "install the wheel on every executor instead"
        )


@functools.cache
def installed() -> Catalogue:
    """What is installed in this process, shipped wheels included; looked up once per process."""
    return Catalogue.load()


def source_of(port: Port, name: str) -> str:
    """Distribution and version that offer the plugin. Raises PluginError if there is none of that name."""
    return installed().find(port, name).source


def check_options(port: Port, name: str, options: Mapping[str, object]) -> None:
    """Raises PluginError: the plugin is unknown, or does not have such options; the message names all of them."""
    catalogue = installed()
    catalogue.options(catalogue.find(port, name), options)


def build(port: Port, name: str, slots: int, seed: int = 0, options: Mapping[str, object] = _DEFAULTS) -> object:
    """The plugin with these options, else its defaults, for no cluster; its chance comes from ``seed``.

    Raises:
        PluginError: there is no such plugin, or it cannot be built.
    """
    catalogue = installed()
    entry = catalogue.find(port, name)
    context = Context("", slots, _NoTime(), random.Random(seed), node="comparison")
    return catalogue.build(entry, catalogue.options(entry, options), context)


def must_be_known(port: Port, names: Sequence[str]) -> None:
    """Raises PluginError where a name is none of the installed or shipped plugins, or is there twice."""
    for name in names:
        installed().find(port, name)
    if twice := {name for name in names if names.count(name) > 1}:
        raise PluginError(f"the {port} {min(twice)!r} is named twice; each is compared once")


class _NoTime(Clock):
    """The clock of a job: pure functions are replayed, nothing waits for anything."""

    def now(self) -> float:
        """Always 0."""
        return 0.0

    def reached(self, at: float) -> bool:
        """Whether 0 is as late."""
        return at <= 0.0

    def wall_ms(self) -> int:
        """Always 0."""
        return 0

    def call_later(self, seconds: float, action: Callable[[], None]) -> Timer:
        """Refused."""
        raise PluginError("a plugin that waits cannot be compared: slot functions and balancers are pure functions")

    def call_soon(self, action: Callable[[], None]) -> None:
        """Refused."""
        self.call_later(0, action)

    async def sleep(self, seconds: float) -> None:
        """Refused."""
        self.call_later(seconds, lambda: None)
