"""What decoders refuse, and what they once did not: the bytes of each finding are tried for ever."""

from __future__ import annotations

import pytest
from slotreeve_fuzz.targets import TARGETS

FOUND = [
    ("orders", b'{"banned":["\xff"]}'),
    ("event", b'{"kind":"\xff\xfe"}'),
    ("event", b"[" * 3_000),
    ("tokens", b'{"by_id":{"\xff":1}}'),
    ("overrides", b"\xff"),
    ("live_settings", b'{"log.level":"\xff"}'),
    ("envelope", b"\xff" * 40),
    ("json_body", b"[" * 3_000),
    ("eureka_json", b'{"instance":' * 300),
    ("eureka_xml", b"<instance>" * 300),
    ("trusted_keys", b"\xff"),
    ("trusted_keys", b'[data]\n"a\\u0000" = []'),
    ("fle_disk", b"\x00" + b"\xff" * 40),
    ("fle_message", b"\xdd\xff\xff\xff\xff"),
    ("packet", b"\x1f\xff\xff\xff\xff"),
    ("configuration", b"\xff"),
    ("configuration", b"[a]\na = " + b"[" * 3_000),
    ("openid_keys", b'{"keys": [{"kty": "RSA", "n": "\xff"}]}'),
    ("openid_keys", b'{"keys": [{"kty": "oct", "kid": "i"}, {"kty": "OKP"}, {"kty": "EC", "x": 1}]}'),
    ("openid_keys", b"[" * 3_000),
    ("openid_token", b"eyJ" + b"." * 5),
    ("openid_token", b"eyJhbGciOiJub25lIn0.e30."),
    ("swap_record", b"\xff"),
    ("data_info", b"\xff#@##@#"),
    ("address", b"[::1%\xff]:80"),
    ("rights", b"read:" + b"*" * 256),
]


@pytest.mark.parametrize("name", TARGETS)
def test_good_input_is_decoded(name: str) -> None:
    seeds = list(TARGETS[name].seeds())
    good = 0
    for seed in seeds:
        try:
            TARGETS[name].run(seed)
            good += 1
        except TARGETS[name].refusals:
            continue
    assert good >= len(seeds) / 4, "most seeds of packets are of a kind that a message has not"


@pytest.mark.parametrize(("name", "data"), FOUND, ids=lambda value: value if isinstance(value, str) else "")
def test_what_was_found_is_refused_in_words_or_decoded(name: str, data: bytes) -> None:
    refusals = TARGETS[name].refusals
    refused: list[Exception] = []
    try:
        TARGETS[name].run(data)
    except refusals as error:
        refused.append(error)
    assert all(map(str, refused))
