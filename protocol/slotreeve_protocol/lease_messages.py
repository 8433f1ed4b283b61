"""Messages about leases: between clients and session servers, between session and data servers, and among data servers.

Rules for all messages: :mod:`slotreeve_protocol.general_messages`.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from slotreeve.model.publisher import MOST_PARTS
from slotreeve.ports import Message

from slotreeve_protocol.slot_messages import Access

MOST_TAKEN = 21_000
"""Most leases in one request. Ours has 5,000; clients of version 0.1.0 sent as many as 4 MiB hold. A list with more is
refused before it is read."""
LeaseIds = dict[str, list[str]]
"""Lease ids by data info id."""
TakenLeaseIds = Annotated[
    dict[str, Annotated[list[str], msgspec.Meta(max_length=MOST_TAKEN)]], msgspec.Meta(max_length=MOST_TAKEN)
]
"""As a client may send them."""


class LeaseTerms(msgspec.Struct, array_like=True, frozen=True):
    """One lease to be registered: it ends unless it is renewed within ``ttl_ms`` milliseconds, again and again."""

    data_info_id: str
    lease_id: str
    zone: str
    data: Annotated[tuple[bytes, ...], msgspec.Meta(max_length=MOST_PARTS)]
    ttl_ms: int


class RegisterLeases(Message, frozen=True, tag=56):
    """Client to session: keep these registrations, or replace payload, zone and time to live of those that exist.
    Reply: LeasesKnown, or Failed where one of them cannot be good."""

    leases: Annotated[list[LeaseTerms], msgspec.Meta(max_length=MOST_TAKEN)]


class RenewLeases(Message, frozen=True, tag=57):
    """Client to session: the time to live of these leases begins anew. Reply: LeasesKnown, or Failed."""

    leases: TakenLeaseIds


class EndLeases(Message, frozen=True, tag=51):
    """Client to session: end these leases now. Reply: LeasesKnown, or Failed."""

    leases: TakenLeaseIds


class LeasesKnown(Message, frozen=True, tag=52):
    """Reply to RegisterLeases, RenewLeases and EndLeases: it was carried out for all leases but these. ``unknown``:
    there is no such lease. ``unanswered``: no leader of their slot has answered in time, for ``reason``; it may have
    been carried out."""

    unknown: LeaseIds
    unanswered: LeaseIds
    reason: str = ""


class SlotLeases(msgspec.Struct, array_like=True, frozen=True):
    """What is to be done with the leases of one slot, in this order."""

    slot: int
    leader_epoch: int
    registered: list[LeaseTerms]
    renewed: LeaseIds
    ended: LeaseIds


class KeepLeases(Message, frozen=True, tag=53):
    """Session to data leader: register, renew and end these leases. Reply: LeasesKept."""

    batches: list[SlotLeases]


class KeptLeases(msgspec.Struct, array_like=True, frozen=True):
    """What became of the part of a request that concerns one slot. ``access``: it was carried out only with Accept and
    Migrating. Moved also means that the server cannot make sure that it still leads the slot, or that the followers
    have what it stored; the request may be repeated. ``unknown``: there are no such leases to renew or end."""

    slot: int
    access: Access
    leader_epoch: int
    unknown: LeaseIds


class LeasesKept(Message, frozen=True, tag=54):
    """Reply to KeepLeases: one answer for each slot of the request, in its order."""

    answers: list[KeptLeases]
