"""The pages that each page leads to."""

from __future__ import annotations

from typing import NamedTuple


class NavigationEntry(NamedTuple):
    """A page: its name in templates and in ``/ui/events``, its path, and the text of the link."""

    name: str
    path: str
    text: str


NAVIGATION = (
    NavigationEntry("first", "/ui/", "Now"),
    NavigationEntry("services", "/ui/services", "Services"),
    NavigationEntry("servers", "/ui/servers", "Servers"),
    NavigationEntry("slots", "/ui/slots", "Slots"),
    NavigationEntry("history", "/ui/history", "History"),
    NavigationEntry("election", "/ui/election", "Election"),
    NavigationEntry("configuration", "/ui/configuration", "Configuration"),
)
"""In the order of the links."""
