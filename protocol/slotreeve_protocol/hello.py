"""The exchange of hellos at the start of a connection: which peers are refused."""

from __future__ import annotations

from slotreeve.keys import ONE_NODE, SPEAKS_AS, Principal, is_client_of
from slotreeve.model.nodes import Role
from slotreeve.ports import Hello

LONGEST_NAME = 400
"""Longest name of a process that has a key, and of what a refusal repeats, in characters."""


def refusal(ours: Hello, theirs: Hello) -> str | None:
    """Why this process refuses the peer, as a sentence for the peer's operator; None if it accepts the peer.

    It refuses processes of another cluster, processes without a protocol version in common, and servers whose slot
    facts (count, replicas, function) differ, because they would send data to the wrong slots.
    """
    if theirs.cluster != ours.cluster:
        return f"this is cluster {ours.cluster!r}, not {theirs.cluster[:LONGEST_NAME]!r} ([cluster] name)"
    if theirs.newest_version < ours.oldest_version or theirs.oldest_version > ours.newest_version:
        return (
            f"protocol versions {theirs.oldest_version}..{theirs.newest_version} are not among "
            f"{ours.oldest_version}..{ours.newest_version}, which {ours.node} speaks"
        )
    if theirs.facts is not None and ours.facts is not None and theirs.facts != ours.facts:
        names = ("slots", "replicas", "function")
        differing = [n for n in names if getattr(theirs.facts, n) != getattr(ours.facts, n)]
        detail = ", ".join(
            f"{n} is {getattr(ours.facts, n)!r} here and {getattr(theirs.facts, n)!r} there" for n in differing
        )
        return f"slot facts differ from the cluster's: {detail} ([cluster] slots, replicas; [slot_function] use)"
    return None


def imposture(proven: Principal, theirs: Hello) -> str | None:
    """Why the holder of a key is not who its hello says, as a sentence for its operator; None if it is.

    The node of an election that probes whether another one lives says so behind its name. Of the clients with one key
    each has an id that begins with the name of the key, so that none has the id of a client with another key.
    """
    if len(theirs.node) > LONGEST_NAME or not theirs.node.isprintable():
        return f"its name has {len(theirs.node)} characters; expected at most {LONGEST_NAME}, all of them printable"
    if theirs.role not in SPEAKS_AS[proven.role]:
        return f"the key of {proven.name!r} is that of a {proven.role}, not of a {theirs.role}"
    names = {proven.name, f"{proven.name} (probe)"} if proven.role is Role.META else {proven.name}
    if proven.role in ONE_NODE and theirs.node not in names:
        return f"the key is that of {proven.name!r}, not of {theirs.node!r} ([node] name, [node] key_file)"
    if theirs.role is Role.CLIENT and not is_client_of(proven.name, theirs.node):
        return f"the key is that of {proven.name!r}, and the id of a client with it begins with {proven.name + '/'!r}"
    return None
