"""The decoders that read what others have written, each with the errors by which it may refuse."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import jwt
import msgspec
from slotreeve.clock import LoopClock
from slotreeve.configuration import read_value
from slotreeve.errors import ConfigError, MalformedFrame, ModelError, SlotreeveError, StorageError, Unauthenticated
from slotreeve.key_files import TrustedFile
from slotreeve.keys import split_name
from slotreeve.model.data_info import DataInfo
from slotreeve.model.rights import Rights
from slotreeve_election_fle.disk import Disk
from slotreeve_election_fle.messages import TOPIC, PeerPing, from_opaque, to_opaque
from slotreeve_events.stories import decoded_event
from slotreeve_face_consul.queries import ConsulQuery
from slotreeve_face_dns.questions import usual_question
from slotreeve_face_eureka.bodies import instance_of
from slotreeve_gateway.http import decoded
from slotreeve_gateway.openid import OpenIdTokens
from slotreeve_machines.storage import MemoryStorage
from slotreeve_protocol.addresses import split_endpoint
from slotreeve_protocol.codec import decode_frame
from slotreeve_protocol.envelope import decode_instance, encode_instance
from slotreeve_protocol.general_messages import Opaque
from slotreeve_protocol.instance import Instance
from slotreeve_protocol.live_settings import LiveSettings
from slotreeve_protocol.orders import Orders
from slotreeve_protocol.overrides import Overrides
from slotreeve_protocol.packets import frames_of
from slotreeve_protocol.tokens import Tokens
from slotreeve_servers.meta.swap.swap_record import SwapRecord
from slotreeve_servers.meta.swap.swap_record import decode as decode_swap_record
from slotreeve_servers.node.settings import GatewaySettings
from slotreeve_servers.settings import load_settings

LARGEST_BYTES = 4_096
"""Inputs are so long at most."""
GOLDEN = Path(__file__).resolve().parents[3] / "tests" / "protocol" / "golden" / "frames.json"


@dataclass(frozen=True)
class FuzzTarget:
    """One decoder.

    Attributes:
        run: decodes these bytes.
        refusals: what it may raise; anything else is a finding.
        seeds: input that is good, to begin with.
    """

    run: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...]
    seeds: Callable[[], Iterable[bytes]] = tuple


def _packet(data: bytes) -> None:
    for frame in frames_of(data):
        decode_frame(frame)


def _golden_frames() -> list[bytes]:
    """A frame of every message, as a message, a request and a reply."""
    if not GOLDEN.exists():
        return []
    bodies = [bytes.fromhex(frame)[1:] for frames in json.loads(GOLDEN.read_text()).values() for frame in frames]
    return [bytes([0x10 | kind]) + middle + body for body in bodies for kind, middle in _KINDS]


_KINDS = ((0, b""), (1, bytes(4)), (2, bytes(4)), (3, b""))


def _json_of(*values: object) -> list[bytes]:
    return [msgspec.json.encode(value) for value in values]


def _an_event() -> list[bytes]:
    return _json_of({"v": 1, "id": "a", "at_ms": 1, "node": "data-1", "kind": "started"})


def _text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: read(data.decode("utf-8", "surrogateescape"))


def _fle_disk(data: bytes) -> None:
    """A directory whose files hold these bytes: the first one says which."""
    storage = MemoryStorage("fuzz")
    names = ("snapshot", "epochs", "log-0", "identity", "taking-over")
    storage.replace(names[data[0] % len(names)] if data else "epochs", data[1:])
    Disk(storage).read_ledger()


def _in_a_file(read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """A decoder of files, for bytes."""

    def run(data: bytes) -> object:
        path = Path(tempfile.gettempdir()) / f"slotreeve-fuzz-{os.getpid()}.toml"
        path.write_bytes(data)
        try:
            return read(path)
        finally:
            path.unlink()

    return run


_OPENID = GatewaySettings(
    authentication="tokens",
    oidc_issuer="https://sso.example.com",
    oidc_audience="slotreeve",
    grants={"group:a": ("read:*",)},
)
_KEYS_OF_PROVIDER = json.dumps(
    {
        "keys": [
            {
                "kty": "OKP",
                "crv": "Ed25519",
                "kid": "a",
                # The public key of the example in RFC 8037, A.2.
                "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
            }
        ]
    }
).encode()


def _openid_keys(data: bytes) -> None:
    OpenIdTokens(_OPENID, _clock).take(data)


def _openid_token(data: bytes) -> None:
    _tokens.claims(data.decode("utf-8", "surrogateescape"))


class _StandingClock(LoopClock):
    def __init__(self) -> None:
        """It needs no event loop."""

    def wall_ms(self) -> int:
        return 1_700_000_000_000


_clock = _StandingClock()
_tokens = OpenIdTokens(_OPENID, _clock)
_tokens.take(_KEYS_OF_PROVIDER)


def _a_token() -> bytes:
    """Signed with the private key of the same example."""
    key = jwt.PyJWK(json.loads(_KEYS_OF_PROVIDER)["keys"][0] | {"d": "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"})
    claims = {"iss": _OPENID.oidc_issuer, "aud": "slotreeve", "sub": "b", "exp": 1_800_000_000}
    return jwt.encode(claims, key.key, "EdDSA", headers={"kid": "a"}).encode()


TARGETS: Mapping[str, FuzzTarget] = {
    "packet": FuzzTarget(_packet, (MalformedFrame,), _golden_frames),
    "fle_message": FuzzTarget(
        lambda data: from_opaque(Opaque(TOPIC, data)), (MalformedFrame,), lambda: [to_opaque(PeerPing(1, 2)).body]
    ),
    "fle_disk": FuzzTarget(_fle_disk, (StorageError,)),
    "envelope": FuzzTarget(
        lambda data: decode_instance((data,)), (), lambda: [encode_instance(Instance("10.0.0.1", 80))]
    ),
    "tokens": FuzzTarget(Tokens.decode, (ModelError,), lambda: _json_of({"by_id": {}})),
    "orders": FuzzTarget(Orders.decode, (ModelError,), lambda: [Orders().encode()]),
    "overrides": FuzzTarget(Overrides.decode, (ModelError,), lambda: [Overrides().encode() or b"{}"]),
    "live_settings": FuzzTarget(LiveSettings.decode, (ModelError,), lambda: _json_of({"log.level": "info"})),
    "event": FuzzTarget(
        decoded_event,
        (ModelError,),
        _an_event,
    ),
    "eureka_xml": FuzzTarget(
        lambda data: instance_of(data, True), (SlotreeveError,), lambda: [b"<instance><app>A</app></instance>"]
    ),
    "eureka_json": FuzzTarget(
        lambda data: instance_of(data, False), (SlotreeveError,), lambda: [b'{"instance": {"app": "A"}}']
    ),
    "json_body": FuzzTarget(
        lambda data: decoded(data, msgspec.json.Decoder(dict[str, object])), (SlotreeveError,), lambda: _json_of({})
    ),
    "consul_query": FuzzTarget(
        lambda data: ConsulQuery.parse(data, "dc1"), (SlotreeveError,), lambda: [b"index=1&wait=10s&passing&tag=a"]
    ),
    "dns_question": FuzzTarget(
        usual_question, (), lambda: [bytes.fromhex("000001000001000000000000016101620000010001")]
    ),
    "trusted_keys": FuzzTarget(
        _in_a_file(lambda path: TrustedFile(path).read()),
        (SlotreeveError,),
        lambda: [b'[data]\ndata-1 = ["' + b"1" * 40 + b'"]\n'],
    ),
    "data_info": FuzzTarget(_text(DataInfo.parse), (ModelError,), lambda: [b"a#@#b#@#c"]),
    "address": FuzzTarget(
        _text(lambda text: split_endpoint(split_name(text)[1])), (ModelError,), lambda: [b"a@[::1]:80"]
    ),
    "rights": FuzzTarget(_text(lambda text: Rights([text]).hold), (ModelError,), lambda: [b"read:com.*.a"]),
    "swap_record": FuzzTarget(
        decode_swap_record, (StorageError,), lambda: [SwapRecord("a", 1, "fle", versions={"b": 2}).encode()]
    ),
    "configuration": FuzzTarget(
        _in_a_file(lambda path: load_settings(path, {}, {})),
        (ConfigError,),
        lambda: [b'[gateway]\nsessions = ["127.0.0.1:1"]\n[session]\nlinger_seconds = 1\n'],
    ),
    "openid_keys": FuzzTarget(_openid_keys, (ValueError,), lambda: [_KEYS_OF_PROVIDER]),
    "openid_token": FuzzTarget(_openid_token, (Unauthenticated,), lambda: [_a_token()]),
    "setting": FuzzTarget(_text(read_value), (), lambda: [b'{"a": [1]}']),
}
