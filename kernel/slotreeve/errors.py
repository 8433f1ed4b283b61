"""Every error slotreeve raises on purpose, as one tree.

::

    SlotreeveError                 code, exit_code
    ├── ConfigError                a setting is unknown, missing or wrong
    ├── PluginError                a plugin cannot be found, imported, validated or built
    ├── ModelError                 a value breaks a rule of the domain model
    │   └── InvalidTable           a slot table breaks invariant I5
    ├── StorageError               a directory or file cannot be read, locked or made durable
    ├── TransportError
    │   ├── AddressInUse           cannot listen there
    │   ├── Unreachable            nobody answers at the address
    │   ├── Refused                the hello was refused; the reason is the peer's
    │   ├── ConnectionLost         the connection ended before the answer came
    │   ├── Backpressure           the peer's queue is full; nothing was sent
    │   ├── RequestTimeout         no answer in time
    │   ├── FrameTooLarge          the message is larger than a frame may be
    │   └── MalformedFrame         bytes that are not a message of this protocol
    ├── ElectionError
    │   ├── NotLeader              only the leader may do this
    │   ├── StaleTerm              a write under a term older than the highest seen (both are named)
    │   └── VersionConflict        the expected version is not the stored one
    └── ClientError
        ├── ClientClosed           the client was closed
        └── RegistrationError      a registration was refused, or used after it ended

A message says what happened, where (file, key, address), and what would be right. ``code`` is stable and
appears in logs, in JSON output and in ``docs/errors.md``; ``exit_code`` is what the command line ends with.
"""

from __future__ import annotations

from typing import ClassVar


class SlotreeveError(Exception):
    """Root of the tree; never raised itself."""

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


class TransportError(SlotreeveError):
    """Something between two processes went wrong."""

    code = "SR200"
    exit_code = 4


class AddressInUse(TransportError):
    """The address to listen on is taken or cannot be bound."""

    code = "SR201"


class Unreachable(TransportError):
    """Nobody answered at the address in time."""

    code = "SR202"


class Refused(TransportError):
    """The other side refused the hello; the message carries its reason."""

    code = "SR203"
    exit_code = 5


class ConnectionLost(TransportError):
    """The connection ended before the answer came; the request may or may not have been carried out."""

    code = "SR204"


class Backpressure(TransportError):
    """The peer's outgoing queue is full; nothing was sent."""

    code = "SR205"


class RequestTimeout(TransportError):
    """No answer in time; the request may or may not have been carried out."""

    code = "SR206"
    exit_code = 6


class FrameTooLarge(TransportError):
    """The message is larger than a frame may be; nothing was sent."""

    code = "SR207"


class MalformedFrame(TransportError):
    """Bytes that are not a message of this protocol."""

    code = "SR208"


class ElectionError(SlotreeveError):
    """The election or its meta state cannot do what was asked."""

    code = "SR300"


class NotLeader(ElectionError):
    """Only the leader may do this; the message names the leader where it is known."""

    code = "SR301"


class StaleTerm(ElectionError):
    """A write under a term lower than the highest seen; the message names both."""

    code = "SR302"


class VersionConflict(ElectionError):
    """The expected version is not the stored one; the message names both."""

    code = "SR303"


class ClientError(SlotreeveError):
    """The client cannot do what was asked."""

    code = "SR400"


class ClientClosed(ClientError):
    """The client was closed."""

    code = "SR401"


class RegistrationError(ClientError):
    """A registration was refused by the server, or used after it ended."""

    code = "SR402"
    exit_code = 5
