"""How far a job is, for people who wait: which table of how many, and how many of its tasks are done."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAY_SECONDS = 10.0
"""A job that takes longer says so often how far it is."""
Say = Callable[[str], None]


def nothing(text: str) -> None:
    """Says nothing."""


class JobProgress:
    """Tells of jobs that follow each other. Use it on one thread; while a job runs, another one speaks.

    Args:
        say: takes each line; called from two threads, one at a time.

    Attributes:
        say: see above.
    """

    def __init__(self, say: Say = nothing) -> None:
        self.say = say
        self._number = self._of = 0

    def begin(self, jobs: int) -> None:
        """So many jobs follow."""
        self._number, self._of = 0, jobs

    @contextmanager
    def job(self, name: str, session: SparkSession) -> Iterator[None]:
        """A job runs meanwhile."""
        self._number += 1
        head = f"{self._number} of {self._of}: {name}" if self._number <= self._of else name
        began, done = time.monotonic(), threading.Event()
        self.say(f"{head} ...")
        speaker = threading.Thread(target=self._speak, args=(head, session, done), daemon=True)
        if self.say is not nothing:
            speaker.start()
        try:
            yield
        finally:
            done.set()
            if speaker.ident is not None:
                speaker.join()
        self.say(f"{head}: done in {time.monotonic() - began:.1f} s")

    def _speak(self, head: str, session: SparkSession, done: threading.Event) -> None:
        tracker = session.sparkContext.statusTracker()
        while not done.wait(SAY_SECONDS):
            stages = [
                info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage)) is not None
            ]
            every, ended = sum(each.numTasks for each in stages), sum(each.numCompletedTasks for each in stages)
            self.say(f"{head}: {ended} of {every} tasks done" if every else f"{head}: between two stages")
