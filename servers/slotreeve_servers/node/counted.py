"""What servers count and time: each name, meaning and kind, in one place (docs/counters.md and a part of docs/health.md
are made from it)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class CounterKind(StrEnum):
    """How a number behaves."""

    COUNTER = "counter"
    """Counts from the start of the process, and never falls."""
    GAUGE = "gauge"
    """What is there now."""


class Counted(NamedTuple):
    """One number that servers report.

    Attributes:
        kind: whether it only rises.
        meaning: for people, as a phrase.
        quiet: it is 0, or does not rise, while no server joins, leaves or restarts.
    """

    kind: CounterKind
    meaning: str
    quiet: bool = False


_C, _G = CounterKind.COUNTER, CounterKind.GAUGE

EVERY_SERVER: Mapping[str, Counted] = {
    "loop_failures": Counted(
        _C, "background loops that failed and were started again; each one is a defect, please report it", True
    ),
    "loop_lag_ms": Counted(
        _G,
        "the largest lag of the event loop in the last 10 s, in milliseconds; a busy or starved machine shows here",
    ),
    "loop_late_seconds": Counted(
        _C,
        "seconds during which the process was frozen or got no processor; they are not held against other servers",
    ),
    "malformed_frames": Counted(_C, "frames that were not a message of this protocol", True),
    "oversize_frames": Counted(_C, "frames that were larger than a frame may be", True),
    "refused_hellos": Counted(
        _C, "connections refused because of another cluster, protocol version or slot function", True
    ),
    "refused_keys": Counted(_C, "connections refused because the key of the peer is not trusted", True),
    "backpressure": Counted(_C, "messages that were not sent because the queue to a peer was full", True),
    "handler_errors": Counted(_C, "errors raised while a message was handled", True),
    "history_lost": Counted(
        _C, "events and changes that the history lacks, because too many waited or the disk took none", True
    ),
    "unexpected_messages": Counted(_C, "messages that this role has no handler for", True),
}
META: Mapping[str, Counted] = {
    "leading": Counted(_G, "1 on the meta leader, 0 on the others"),
    "term": Counted(_G, "the term of the election"),
    "election_failures": Counted(
        _C,
        "`fle` only: how often its disk refused a write or its state machine failed, and it started again from the "
        "disk",
        True,
    ),
    "election_slow_writes": Counted(_C, "`fle` only: writes to the disk that took longer than 100 ms"),
    "election_slowest_write_ms": Counted(_G, "`fle` only: the longest write to the disk, in milliseconds"),
    "revision": Counted(_G, "the revision of the committed view of the cluster"),
    "table_epoch": Counted(_G, "the epoch of the slot table"),
    "data_servers": Counted(_G, "data servers that are members"),
    "session_servers": Counted(_G, "session servers that are members"),
    "protected": Counted(_G, "1 while `meta.protect_below` freezes the slot table", True),
    "state_set_back": Counted(
        _C,
        "how often this leader went on above members that knew a newer meta state: a view, a term or configuration",
        True,
    ),
    "slots_led_unclean": Counted(
        _C, "slots that this meta leader gave to a server that was not in sync, because no other one lived", True
    ),
    "names_refused": Counted(
        _C, "processes that were refused because another one, which lives, has their node.name", True
    ),
    "rejected_plans": Counted(
        _C,
        "results of the assigner or balancer that were not valid (I5), or whose moves did not lead to their table, and "
        "were dropped",
        True,
    ),
    "balancer_stopped": Counted(
        _G,
        "1 while the balancer is not asked, because its steps did not come to an end; see the ALARM in the log",
        True,
    ),
}
DATA: Mapping[str, Counted] = {
    "slots_led": Counted(_G, "slots that this server leads"),
    "slots_followed": Counted(_G, "slots that this server follows"),
    "slots_unsettled": Counted(_G, "slots that are still being taken over or copied", True),
    "slots_unreadable": Counted(_G, "slots that this server leads and that cannot be read yet", True),
    "slots_unreadable_ms": Counted(
        _C, "milliseconds for which slots that this server took over could not be read, all of them together", True
    ),
    "registrations": Counted(_G, "registrations in the slots that this server leads"),
    "session_repairs": Counted(_C, "services that differed between a session server and the serving leader", True),
    "follower_repairs": Counted(_C, "services that differed between the leader and a follower in sync", True),
    "takeover_differences": Counted(
        _C, "services that differed while a new leader compared itself with the session servers"
    ),
    "slots_served_incomplete": Counted(
        _C, "slots that serve without the records of a silent session server (`data.emergency_seconds`)", True
    ),
    "services_copied": Counted(_C, "services that a new follower copied from the leader"),
    "endings_held": Counted(
        _G,
        "registrations of lost clients that are not removed yet: they wait for evidence, or the brake on mass expiry "
        "holds them (docs/endings.md)",
        True,
    ),
    "endings_overdue": Counted(
        _C,
        "registrations removed although the brake held them, because `data.brake_hold_seconds` was over",
        True,
    ),
    "clients_lost": Counted(
        _G,
        "clients lost within twice `data.session_grace_seconds`, also those that are back; "
        "beyond eight, each has the grace to return before it is removed",
    ),
    "clients_arriving": Counted(
        _G, "clients that are connected to a session server and have not sent everything again yet"
    ),
    "leases": Counted(_G, "leases in the slots that this server leads ([leases.md](leases.md))"),
    "leases_expired": Counted(_C, "leases that ended because nobody renewed them"),
    "leases_held": Counted(
        _G,
        "leases that nobody renewed and that the guard against mass expiry holds back; "
        "the ALARM in the log names the services",
        True,
    ),
    "leases_overdue": Counted(
        _C,
        "leases that ended although the guard held them, because `data.brake_hold_seconds` was over",
        True,
    ),
    "changes_sent": Counted(_C, "messages about changed services sent to session servers"),
    "records_replicated": Counted(_C, "records sent to followers"),
}
SESSION: Mapping[str, Counted] = {
    "clients": Counted(_G, "clients connected"),
    "clients_waiting": Counted(_G, "clients that are connected and not let in yet, because many came at once", True),
    "clients_late": Counted(_G, "clients whose callbacks run more than a second late, as they say themselves", True),
    "clients_behind": Counted(
        _G, "clients that read slower than their services change: pushes wait until there is room for them", True
    ),
    "clients_refused": Counted(
        _C, "connections of clients that were refused because another client, which lives, has their id", True
    ),
    "limits_hit": Counted(
        _C, "what clients were refused because one of them may have, or ask for, no more (`session.most_...`)", True
    ),
    "lookups_shed": Counted(
        _C,
        "lookups that failed because the leaders of the slots were asked for more than they could answer in time",
        True,
    ),
    "clients_sent_away": Counted(
        _C, "clients that were sent to another session server because this one is cut off", True
    ),
    "services_watched": Counted(_G, "services with at least one subscriber here"),
    "publishes": Counted(_C, "registrations that clients have sent, repetitions and ends included"),
    "pushes": Counted(_C, "pushes that were sent, each to one subscriber of one service"),
    "pushes_judged": Counted(
        _C, "pushes of changes that were held against the objective ([delays.md](delays.md)), each to one subscriber"
    ),
    "pushes_late": Counted(
        _C,
        "those that took longer than `objective.delay_ms`; a subscriber that goes on lacking a change counts once more "
        "every 10 s",
    ),
    "pushes_overdue": Counted(
        _G, "subscriptions that lack a change now for longer than `objective.delay_ms`: slotreeve delays", True
    ),
    "push_age_p99_ms": Counted(
        _G, "99 of 100 changes of the last five minutes were pushed within so many milliseconds, rounded up to a range"
    ),
    "objective_burning": Counted(
        _G, "1 while late pushes use up the objective so fast that somebody should look", True
    ),
    "writes_waiting": Counted(_G, "registrations that a data server has not acknowledged yet"),
    "write_retries": Counted(_C, "batches of writes that were sent again", True),
    "change_gaps": Counted(
        _C, "changes of a service that were missed, so that the whole datum was fetched again", True
    ),
}
GATEWAY: Mapping[str, Counted] = {
    "gateway_services_watched": Counted(_G, "services that callers have asked for lately"),
    "gateway_tokens": Counted(_G, "tokens in force, revoked ones excluded"),
    "gateway_refused_tokens": Counted(_C, "requests refused because their token is unknown, expired, or missing", True),
    "gateway_openid_failures": Counted(_C, "times that the keys of the OpenID provider could not be read", True),
    "http_connections": Counted(_G, "callers connected over HTTP, with those whose requests are still worked on"),
    "http_yielded_connections": Counted(
        _C, "connections without a whole request that ended in favour of new ones, at `gateway.most_connections`", True
    ),
    "http_refused_connections": Counted(_C, "connections beyond `gateway.most_connections`", True),
    "http_bad_requests": Counted(_C, "requests that were not HTTP, or whose head was too large", True),
    "http_slow_requests": Counted(_C, "connections ended because a request was not complete in time", True),
    "http_slow_readers": Counted(_C, "connections ended because their caller did not take the answer in time", True),
    "http_failed_handshakes": Counted(_C, "connections that did not get through TLS' handshake", True),
    "http_certificate_failures": Counted(
        _C, "changes of the certificate's files that could not be read; the certificate before stays in use", True
    ),
}
BY_SERVER: Mapping[str, Mapping[str, Counted]] = {
    "Every server": EVERY_SERVER,
    "Meta servers": META,
    "Data servers": DATA,
    "Session servers": SESSION,
    "Gateways": GATEWAY,
}
"""All of them, under the title of their part of the page."""
COUNTED: Mapping[str, Counted] = {name: counted for part in BY_SERVER.values() for name, counted in part.items()}
"""All of them by name. An election of another package may report further ones."""

LOOP_LAG, ACCEPT, STORE = "loop_lag_seconds", "accept_seconds", "store_seconds"
ANNOUNCE, CARRY = "announce_seconds", "carry_seconds"
UNREADABLE = "slot_unreadable_seconds"
PUSH_WAIT, PUSH_AGE, RECEIPT = "push_wait_seconds", "push_age_seconds", "receipt_seconds"
TIMED: Mapping[str, str] = {
    LOOP_LAG: "every server: how late its event loop looked at the clock, ten times a second",
    ACCEPT: "session servers: from the arrival of a registration until the leader of its slot has it",
    STORE: "session servers: from a message with registrations to a slot's leader until its answer that it has them",
    ANNOUNCE: "data servers: from the first change of a turn of the event loop until the changes are sent to session "
    "servers",
    CARRY: "data servers: from changes until the session server has read them, with the way back of the proof; once a "
    "second for each session server",
    UNREADABLE: "data servers: from the last sign of life of the former leader of a slot, or from its move, until this "
    "server serves the slot",
    PUSH_WAIT: "session servers: from a change of a service until it goes out to the subscribers; changes that come "
    "shortly after each other go out together",
    PUSH_AGE: "session servers: from the arrival of a change at the first server until its push to a subscriber: the "
    "sum of what each server measured, without the time on the wire",
    RECEIPT: "session servers: from a push until the client has it in its copy, with the way back of the receipt",
}
"""The meaning of each duration that servers measure, by name."""
