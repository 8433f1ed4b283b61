"""Which session processes are gone, and since when (original: ``SessionLeaseManager``). Pure: time is an argument."""

from __future__ import annotations

from collections.abc import Callable, Iterable


class GoneSessions:
    """The session processes with records here that have left the view.

    Such a process is gone once it is not linked any more either. A session server that is cut off from the meta servers
    alone leaves the view, but what its clients publish still arrives over its link: it is not gone.
    """

    def __init__(self) -> None:
        self._since: dict[str, float | None] = {}

    def view_changed(self, before: set[str], alive: set[str]) -> list[str]:
        """The members of the view changed. Returns the processes that were missing and are members again."""
        back = [process_id for process_id in self._since if process_id in alive]
        for process_id in back:
            del self._since[process_id]
        self.suspect(before - alive)
        return back

    def suspect(self, processes: Iterable[str]) -> None:
        """These processes have records here and are no members."""
        for process_id in processes:
            self._since.setdefault(process_id, None)

    def look(self, is_linked: Callable[[str], bool], now: float) -> tuple[list[str], list[str]]:
        """Note which of them are not linked. Returns those that have just gone, and those that are linked again, each
        sorted."""
        gone, back = [], []
        for process_id, since in sorted(self._since.items()):
            if is_linked(process_id):
                if since is not None:
                    self._since[process_id] = None
                    back.append(process_id)
            elif since is None:
                self._since[process_id] = now
                gone.append(process_id)
        return gone, back

    @property
    def processes(self) -> set[str]:
        """The processes that are gone."""
        return {process_id for process_id, since in self._since.items() if since is not None}

    def since(self, process_id: str) -> float | None:
        """When the process was found to be gone; None where it is not."""
        return self._since.get(process_id)

    def forget(self, before: float) -> None:
        """Forget the processes that were found to be gone before then."""
        self._since = {key: since for key, since in self._since.items() if since is None or since >= before}
