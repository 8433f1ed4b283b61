"""Every error that slotreeve raises on purpose, as one tree.

::

    SlotreeveError                 code, exit_code
    ├── ConfigError                a setting is unknown, missing or wrong
    ├── PluginError                a plugin cannot be found, imported, validated or built
    ├── ModelError                 a value breaks a rule of the domain model
    │   └── InvalidTable           a slot table breaks invariant I5
    ├── StorageError               a directory or file cannot be read, locked or made durable
    ├── OutOfMemory                the process has no memory left, and ends
    ├── TransportError             communication between two processes failed
    │   ├── AddressInUse           the address to listen on is taken or cannot be bound
    │   ├── Unreachable            no process answers at the address
    │   ├── Refused                the peer refused the hello and gave a reason
    │   ├── ConnectionLost         the connection ended before the reply arrived
    │   ├── Backpressure           the peer's queue is full; nothing was sent
    │   ├── RequestTimeout         no reply arrived in time
    │   ├── FrameTooLarge          the message is larger than a frame may be
    │   └── MalformedFrame         bytes that are not a message of this protocol
    ├── ElectionError              the election or its meta state cannot do what was requested
    │   ├── NotLeader              only the leader may do this
    │   ├── StaleTerm              a write under a term older than the highest seen (both are named)
    │   └── VersionConflict        the expected version is not the stored one
    ├── ClientError                the client cannot do what was requested
    │   ├── ClientClosed           the client was closed
    │   └── RegistrationError      a registration was refused, or used after it ended
    ├── AccessError                a server does not do this for this caller
    │   ├── Unauthenticated        no token, or one that is not valid
    │   ├── Forbidden              the token or the key does not have the right
    │   └── LimitReached           the caller has, or asks for, as much as one may
    └── RequestError               a request to a gateway is not good
        ├── NotThere               there is no such page
        └── UnknownInstance        there is no such lease, instance or override

A message says what happened, where (file, key, address), and what would be right. ``code`` never changes and appears
in logs, in JSON output and in ``docs/errors.md``. ``exit_code`` is that of a command that fails with the error.
"""

from __future__ import annotations

from typing import ClassVar


class SlotreeveError(Exception):
    """Root of the tree. It is never raised itself."""

    code: ClassVar[str] = "SR000"
    exit_code: ClassVar[int] = 1


class ConfigError(SlotreeveError):
    """A setting is unknown, missing or does not validate."""

    code = "SR100"
    exit_code = 2


class PluginError(SlotreeveError):
    """A plugin cannot be found, imported, validated or built."""

    code = "SR110"
    exit_code = 2


class ModelError(SlotreeveError, ValueError):
    """A value breaks a rule of the domain model."""

    code = "SR120"
    exit_code = 2


class InvalidTable(ModelError):
    """A slot table breaks invariant I5 (one leader a slot, distinct live followers, enough of them)."""

    code = "SR121"


class StorageError(SlotreeveError):
    """A directory or file cannot be read, locked or made durable."""

    code = "SR130"


class OutOfMemory(SlotreeveError):
    """The process has no memory left. It ends at once, so that others take its place: it may have lost messages."""

    code = "SR131"


class TransportError(SlotreeveError):
    """Communication between two processes failed."""

    code = "SR200"
    exit_code = 4


class AddressInUse(TransportError):
    """The address to listen on is taken or cannot be bound."""

    code = "SR201"


class Unreachable(TransportError):
    """No process answered at the address in time. ``nobody_listens``: the host has said at once that none is there."""

    code = "SR202"
    nobody_listens = False


class Refused(TransportError):
    """The peer refused the hello. The message holds the peer's reason."""

    code = "SR203"
    exit_code = 5


class ConnectionLost(TransportError):
    """The connection ended before the reply arrived. The request may or may not have been carried out."""

    code = "SR204"


class Backpressure(TransportError):
    """The queue of messages to the peer is full. Nothing was sent."""

    code = "SR205"


class RequestTimeout(TransportError):
    """No reply arrived in time. The request may or may not have been carried out."""

    code = "SR206"
    exit_code = 6


class FrameTooLarge(TransportError):
    """The message is larger than a frame may be. Nothing was sent."""

    code = "SR207"


class MalformedFrame(TransportError):
    """Bytes that are not a message of this protocol."""

    code = "SR208"


class ElectionError(SlotreeveError):
    """The election or its meta state cannot do what was requested."""

    code = "SR300"


class NotLeader(ElectionError):
    """Only the leader may do this. The message names the leader if it is known."""

    code = "SR301"


class StaleTerm(ElectionError):
    """A write has a lower term than the highest one seen. The message names both."""

    code = "SR302"


class VersionConflict(ElectionError):
    """The expected version is not the stored one. The message names both."""

    code = "SR303"


class ClientError(SlotreeveError):
    """The client cannot do what was requested."""

    code = "SR400"


class ClientClosed(ClientError):
    """The client was closed."""

    code = "SR401"


class RegistrationError(ClientError):
    """A registration was refused by the server, or used after it ended."""

    code = "SR402"
    exit_code = 5


class AccessError(SlotreeveError):
    """A server does not do this for this caller."""

    code = "SR500"
    exit_code = 5


class Unauthenticated(AccessError):
    """The caller has no token, or one that is unknown, revoked or expired."""

    code = "SR501"


class Forbidden(AccessError):
    """The caller's token or key does not have the right. The message names the right and the service."""

    code = "SR502"


class LimitReached(AccessError):
    """The caller has, or asks for, as much as one may. The message names the limit and the setting."""

    code = "SR503"


class RequestError(SlotreeveError):
    """A gateway does not understand a request: its path, method, query, media type or size is wrong."""

    code = "SR510"
    exit_code = 2


class NotThere(RequestError):
    """A gateway has no such page."""

    code = "SR511"


class UnknownInstance(RequestError):
    """There is no such lease, instance or override. A lease that ended must be registered again."""

    code = "SR512"
