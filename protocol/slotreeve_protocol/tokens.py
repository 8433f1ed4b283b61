"""The tokens that callers show to a gateway.

They are one entry of the provided configuration, as the operator's overrides are: written through the meta leader, kept
through restarts of every process, and sent to every gateway, which watches the key.

A token reads ``slotreeve.ID.SECRET``. The id is no secret: a gateway finds the token by it. Of the secret only its
SHA-256 is kept. A slow hash, as passwords need it, would protect nothing here: the secret is 256 random bits, which
nobody can guess however fast the hash is, and each request would pay for it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

import msgspec
from slotreeve.errors import ModelError
from slotreeve.model.rights import parse_right
from slotreeve.model.text import UNDECODABLE

TOKENS_KEY = "slotreeve.tokens"
MAX_TOKENS = 500
"""Most tokens in a cluster: each gateway is sent all of them."""
MAX_TOKENS_BYTES = 256 * 1024
"""Largest JSON of all tokens, in bytes."""
MAX_RIGHTS = 50
MAX_TOKEN_NOTE_LENGTH = 200
PREFIX = "slotreeve"
ID_BYTES, SECRET_BYTES = 8, 32

_is_name = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}").fullmatch
_is_hash = re.compile(r"[0-9a-f]{64}").fullmatch
_NOT_IN_A_LINE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]").search


class Token(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of one token.

    Attributes:
        name: for people and the log; at most 64 letters, digits, ``.``, ``_`` and ``-``.
        secret_hash: SHA-256 of its secret, in hexadecimal.
        rights: each ``RIGHT:PATTERN`` (:func:`slotreeve.model.rights.parse_right`).
        issued_ms: when it was issued, in milliseconds of the wall clock.
        ends_ms: when it ends, in milliseconds of the wall clock; None: when it is revoked.
        note: for people; at most 200 characters.

    Raises:
        ModelError: a field is not as it must be.
    """

    name: str
    secret_hash: str
    rights: tuple[str, ...]
    issued_ms: int = 0
    ends_ms: int | None = None
    note: str = ""

    def __post_init__(self) -> None:
        """Check the fields."""
        if not _is_name(self.name):
            raise ModelError(
                f"token: name is {self.name[:60]!r}; expected 1 to 64 letters, digits, '.', '_' and '-', a letter or a "
                "digit first"
            )
        if not _is_hash(self.secret_hash):
            raise ModelError(f"token {self.name}: secret_hash is no SHA-256 in hexadecimal")
        if not 1 <= len(self.rights) <= MAX_RIGHTS:
            raise ModelError(f"token {self.name}: it has {len(self.rights)} rights; expected 1 to {MAX_RIGHTS}")
        for right in self.rights:
            parse_right(right)
        if len(self.note) > MAX_TOKEN_NOTE_LENGTH or _NOT_IN_A_LINE(self.note):
            raise ModelError(f"token {self.name}: note: expected a line of at most {MAX_TOKEN_NOTE_LENGTH} characters")

    def has_ended(self, wall_ms: int) -> bool:
        """Whether it has ended at this time."""
        return self.ends_ms is not None and wall_ms >= self.ends_ms


class Tokens(msgspec.Struct, frozen=True):
    """All tokens. Do not change the dictionary.

    Attributes:
        by_id: the tokens by their public id.
    """

    by_id: dict[str, Token] = {}

    def issued(self, token_id: str, token: Token) -> Tokens:
        """A copy with one more token.

        Raises:
            ModelError: a token has this name or id already, or there would be too many.
        """
        if token_id in self.by_id or any(token.name == other.name for other in self.by_id.values()):
            raise ModelError(f"a token {token.name} is there already; take another name, or revoke it first")
        if len(self.by_id) >= MAX_TOKENS:
            raise ModelError(f"{MAX_TOKENS} tokens are the limit: revoke some")
        return Tokens({**self.by_id, token_id: token})

    def revoked(self, name: str) -> Tokens:
        """A copy without the token of this name; the same where there is none."""
        return Tokens({token_id: token for token_id, token in self.by_id.items() if token.name != name})

    def encode(self) -> bytes:
        """As JSON; equal tokens have equal JSON.

        Raises:
            ModelError: it is larger than :data:`MAX_TOKENS_BYTES`.
        """
        value = _encode(self)
        if len(value) > MAX_TOKENS_BYTES:
            raise ModelError(f"the tokens take {len(value)} bytes; {MAX_TOKENS_BYTES} is the limit: revoke some")
        return value

    @classmethod
    def decode(cls, value: bytes | None) -> Tokens:
        """From JSON; None stands for no tokens.

        Raises:
            ModelError: ``value`` is not the JSON of tokens; the message says what is wrong.
        """
        if value is None:
            return cls()
        try:
            return _decode(value)
        except UNDECODABLE as error:
            raise ModelError(
                f"provided configuration {TOKENS_KEY!r}: {error}; slotreeve gateway token writes it"
            ) from None


def new_token(random_bytes: Callable[[int], bytes]) -> tuple[str, str, str]:
    """A new token: its text, its public id, and the hash of its secret. ``random_bytes`` must be fit for secrets
    (:func:`secrets.token_bytes`)."""
    token_id, secret = random_bytes(ID_BYTES).hex(), random_bytes(SECRET_BYTES).hex()
    return f"{PREFIX}.{token_id}.{secret}", token_id, hash_of(secret).hex()


def hash_of(secret: str) -> bytes:
    """What is kept of a secret."""
    return hashlib.sha256(secret.encode(errors="replace")).digest()


def parts_of(text: str) -> tuple[str, str]:
    """The id and the secret of what a caller shows. Both are empty where it is no token of ours."""
    prefix, _, rest = text.partition(".")
    token_id, _, secret = rest.partition(".")
    return (token_id, secret) if prefix == PREFIX and secret else ("", "")


_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(Tokens).decode
