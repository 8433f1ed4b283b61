"""Messages and records in short lines, for transcripts."""

from __future__ import annotations

from collections.abc import Iterable

from slotreeve.model.datum import COUNTER_BITS
from slotreeve.model.publisher import Publisher
from slotreeve.ports import Message
from slotreeve_protocol.client_messages import (
    Publish,
    Published,
    Push,
    PushesReceived,
    Redirect,
    Rejected,
    ReplayEnded,
    Sessions,
    Subscribe,
    Withdraw,
)
from slotreeve_protocol.general_messages import Done
from slotreeve_protocol.slot_messages import (
    Answers,
    Changed,
    Compare,
    Compared,
    Confirm,
    DeclareInterest,
    Follow,
    Presence,
    Replicate,
    SlotWrite,
    Write,
)


def describe(message: Message) -> str:
    """A message in one short line."""
    match message:
        case Write(batches):
            return f"Write {'; '.join(map(_write, batches))}"
        case Replicate(batches):
            return f"Replicate {'; '.join(map(_write, batches))}"
        case Answers(answers):
            return " ".join(["Answers", ", ".join(f"{a.access.name} epoch {a.leader_epoch}" for a in answers)]).rstrip()
        case DeclareInterest(interests):
            wanted = [f"{_service(k.data_info_id)} at {_version(k.version)}" for i in interests for k in i.wanted]
            unwanted = [_service(name) for i in interests for name in i.unwanted]
            return "DeclareInterest " + ", ".join([*wanted, *(f"no more {name}" for name in unwanted)])
        case Changed([], over):
            return f"Changed over {records_text(over)}"
        case Changed(changes):
            steps = [
                f"{_version(c.from_version)}..{_version(c.version)} {records_text(c.changed)}{_removed(c.removed)}"
                for c in changes
            ]
            return "Changed " + "; ".join(steps)
        case Compare(slots) | Follow(slots):
            digests = [", ".join(map(_service, slot.digests)) or "nothing" for slot in slots]
            return f"{type(message).__name__} under epoch {slots[0].leader_epoch}, having {'; '.join(digests)}"
        case Compared(differences):
            found = [
                f"{d.access.name}, {'complete' if d.complete else 'not complete'}: "
                + (", ".join(f"{_service(n)} {records_text(r)}" for n, r in d.records.items()) or "no difference")
                for d in differences
            ]
            return "Compared " + "; ".join(found)
        case Publish(_, records):
            return f"Publish {records_text(records)}"
        case Published(sequences):
            return f"Published {', '.join(map(str, sequences))}"
        case Rejected(sequence, code, _):
            return f"Rejected {sequence} {code}"
        case Push():
            return (
                f"Push {_version(message.from_version)}..{_version(message.version)} "
                f"{records_text(message.changed)}{_removed(message.removed)}"
            )
        case PushesReceived(receipts):
            return "PushesReceived up to " + ", ".join(_version(r.received) for r in receipts)
        case Sessions(addresses) | Redirect(addresses):
            return f"{type(message).__name__} {', '.join(addresses) or 'none'}"
        case Presence(arriving, arrived, left):
            told = {"arriving": arriving, "arrived": arrived, "left": left}
            return "; ".join(["Presence", *[f"{word} {', '.join(names)}" for word, names in told.items() if names]])
        case Confirm() | Done() | Withdraw() | Subscribe() | ReplayEnded():
            return type(message).__name__
    raise AssertionError(f"no words for a {type(message).__name__}")


def _write(write: SlotWrite) -> str:
    parts = [records_text(write.records)] if write.records else []
    parts += [f"gone {records_text(write.gone)}"] if write.gone else []
    parts += [f"lost {records_text(write.lost)}"] if write.lost else []
    parts += [f"purged {', '.join(register_id for _, register_id in write.purged)}"] if write.purged else []
    return f"epoch {write.leader_epoch}: {' '.join(parts)}"


def records_text(records: Iterable[Publisher]) -> str:
    """``register id = data (version.incarnation at session server)``"""
    texts = []
    for r in records:
        data = "-" if r.data is None else r.data[0].decode()
        texts.append(f"{r.register_id}={data} ({r.version}.{r.incarnation} at {r.session.partition('@')[0]})")
    return "[" + ", ".join(sorted(texts)) + "]"


def _removed(removed: Iterable[str]) -> str:
    names = ", ".join(removed)
    return f" without {names}" if names else ""


def _version(version: int) -> str:
    return f"{version >> COUNTER_BITS}.{version & ((1 << COUNTER_BITS) - 1)}" if version else "0"


def _service(data_info_id: str) -> str:
    return data_info_id.partition("#@#")[0]
