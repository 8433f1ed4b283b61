"""The parameters of queries. Pure."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType
from slotreeve_gateway import Filter
from slotreeve_protocol.instance import Health

from slotreeve_face_rest.documents import Index, Tag

After = Annotated[
    Index | UnsetType,
    Meta(description="Answer once the index is greater than this one, which an earlier answer has had."),
]
Wait = Annotated[
    float,
    Meta(ge=0, description="Together with index: answer after so many seconds at the latest. The gateway has a limit."),
]
WAIT_SECONDS = 30.0


class ServicesQuery(Struct, forbid_unknown_fields=True, frozen=True):
    """Which services, and how long to wait for a change."""

    prefix: Annotated[str, Meta(description="Only those whose data info id begins so.")] = ""
    index: After = UNSET
    wait: Wait = WAIT_SECONDS


class WatchQuery(Struct, forbid_unknown_fields=True, frozen=True):
    """Which instances, and in which order: the fields of ``slotreeve_client.Filter``. By default all of them."""

    worst_health: Annotated[
        Health, Meta(description="The worst health that is admitted: warning admits passing and warning.")
    ] = Health.CRITICAL
    enabled_only: Annotated[bool, Meta(description="true: only instances that may be called.")] = False
    tag: Annotated[
        tuple[Tag, ...], Meta(max_length=64, description="Only those with this tag; with all of them, if repeated.")
    ] = ()
    zone: Annotated[str, Meta(description="Those in this zone come first.")] = ""
    enough: Annotated[
        int, Meta(ge=0, le=2**31, description="Where so many of zone are admitted, no others are; 0: never.")
    ] = 0

    @property
    def filter(self) -> Filter | None:
        """The filter; None: every provider is to be seen, also those that no filter admits.

        Raises:
            ModelError: ``enough`` is given without a zone.
        """
        if self.worst_health is Health.CRITICAL and not (self.enabled_only or self.tag or self.zone or self.enough):
            return None
        return Filter(self.worst_health, self.enabled_only, frozenset(self.tag), self.zone or None, self.enough or None)


class InstancesQuery(WatchQuery, forbid_unknown_fields=True, frozen=True):
    """Which instances, and how long to wait for a change."""

    index: After = UNSET
    wait: Wait = WAIT_SECONDS
