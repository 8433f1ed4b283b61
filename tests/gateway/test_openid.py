"""Tokens that an OpenID provider has signed: which are good, and what their callers may do."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from functools import cache
from http.client import BadStatusLine
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.clock import LoopClock
from slotreeve.errors import Forbidden, Unauthenticated, Unreachable
from slotreeve.model.rights import Right
from slotreeve_gateway.openid import LONGEST_TOKEN, MOST_KNOWN, OpenIdTokens
from slotreeve_gateway.origin import CERTIFICATE, ORIGIN, Origin, ShownCertificate
from slotreeve_gateway.token_access import TokenAccess
from slotreeve_gateway.vouched_access import VouchedAccess
from slotreeve_protocol.tokens import Token, Tokens, hash_of
from slotreeve_servers.node.settings import GatewaySettings

ISSUER, AUDIENCE, NOW = "https://sso.example.com", "slotreeve", 1_700_000_000
GRANTS = {
    "group:platform": ("operate:*", "read:*"),
    "group:shop": ("register:com.example.Shop",),
    "subject:robot": ("read:com.example.*",),
    "spiffe://example.com/ns/shop/*": ("register:com.example.Shop",),
    "spiffe://example.com/ns/ops": ("operate:*",),
}


class Clock(LoopClock):
    """A wall clock that is set."""

    def __init__(self) -> None:
        loop = asyncio.new_event_loop()
        loop.close()
        super().__init__(loop)
        self.seconds = float(NOW)

    def wall_ms(self) -> int:
        return int(self.seconds * 1000)


@cache
def rsa_key(number: int) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@cache
def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@cache
def jwks() -> bytes:
    """Two keys of the provider: ``one`` (RSA) and ``two`` (elliptic curve)."""
    one = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(rsa_key(1).public_key()))
    two = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(ec_key().public_key()))
    keys = [{**one, "kid": "one", "alg": "RS256", "use": "sig"}, {**two, "kid": "two"}]
    return json.dumps({"keys": keys}).encode()


def rules(**more: object) -> GatewaySettings:
    given = {"authentication": "tokens", "oidc_issuer": ISSUER, "oidc_audience": AUDIENCE, "grants": GRANTS}
    tls = {"tls_certificate": "c", "tls_key": "k", "tls_client_ca": "ca"}
    return GatewaySettings.model_validate(given | tls | more)


def claims(**more: object) -> dict[str, object]:
    return {"iss": ISSUER, "aud": AUDIENCE, "sub": "u-17", "exp": NOW + 600, "groups": ["platform"]} | more


def signed(number: int = 1, kid: str = "one", **more: object) -> str:
    return jwt.encode(claims(**more), rsa_key(number), "RS256", headers={"kid": kid})


class Scene:
    def __init__(self, **more: object) -> None:
        self.clock, self.denied = Clock(), list[tuple[str, str]]()
        self.openid = OpenIdTokens(rules(**more), self.clock)
        self.openid.take(jwks())
        self.tokens = TokenAccess(self.clock, (), lambda *what: self.denied.append(what))
        self.tokens.take(Tokens({"1": Token("reader", hash_of("s").hex(), ("read:*",))}).encode())
        self.access = VouchedAccess(
            self.tokens, GRANTS, self.openid, lambda *what: self.denied.append(what), self.clock
        )

    def refusal(self, token: str) -> str:
        with pytest.raises(Unauthenticated) as refused:
            self.access.caller(token)
        assert token not in str(refused.value)
        assert self.denied[-1][0] == "a caller"
        return str(refused.value)


def test_a_signed_token_gives_the_rights_of_its_groups_and_of_its_subject_and_no_others() -> None:
    scene = Scene()
    operator = scene.access.caller(signed())
    assert operator.name == "subject u-17"
    operator.require(Right.OPERATE, "*")
    assert not operator.may(Right.REGISTER, "com.example.Shop")
    with pytest.raises(Forbidden, match=r"subject u-17 has no right to register com\.example\.Shop"):
        operator.require(Right.REGISTER, "com.example.Shop")
    assert scene.denied == [("subject u-17", "no right to register com.example.Shop")]
    both = scene.access.caller(signed(sub="robot", groups=["shop", "unknown"], preferred_username="R2"))
    assert both.name == "subject robot"  # a user may choose the other name
    assert both.may(Right.REGISTER, "com.example.Shop")
    assert both.may(Right.READ, "com.example.Till")
    assert not both.may(Right.OPERATE, "*")
    curve = jwt.encode(claims(), ec_key(), "ES256", headers={"kid": "two"})
    assert scene.access.caller(curve).may(Right.OPERATE, "*")


def test_tokens_of_the_cluster_count_as_before() -> None:
    scene = Scene()
    assert scene.access.caller("slotreeve.1.s").name == "reader"
    with pytest.raises(Unauthenticated, match="unknown or revoked"):
        scene.access.caller("slotreeve.1.t")
    with pytest.raises(Unauthenticated, match="a token is needed"):
        scene.access.caller(None)


def unsigned() -> str:
    return jwt.encode(claims(), "", "none", headers={"kid": "one"})


def signed_with_the_public_key() -> str:
    """The best known attack: the public key, which everybody has, as a shared secret."""
    public = rsa_key(1).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head, body = (part for part in signed().split(".")[:2])
    forged = jwt.utils.base64url_encode(json.dumps({"alg": "HS256", "typ": "JWT", "kid": "one"}).encode()).decode()
    message = f"{forged}.{body}"
    assert head != forged
    signature = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256).sign(message.encode(), public)
    return f"{message}.{jwt.utils.base64url_encode(signature).decode()}"


def without(name: str) -> str:
    body = claims()
    del body[name]
    return jwt.encode(body, rsa_key(1), "RS256", headers={"kid": "one"})


def changed() -> str:
    head, _, signature = signed().split(".")
    body = jwt.utils.base64url_encode(json.dumps(claims(sub="robot")).encode()).decode()
    return f"{head}.{body}.{signature}"


FORGED: dict[str, Callable[[], str]] = {
    "of another key": lambda: signed(2),
    "of a key that is not published": lambda: signed(1, "three"),
    "unsigned": unsigned,
    "signed with the public key": signed_with_the_public_key,
    "changed": changed,
    "of another issuer": lambda: signed(iss="https://evil.example.com"),
    "for somebody else": lambda: signed(aud="another"),
    "for a list of others": lambda: signed(aud=["another", "slotreeve2"]),
    "without an end": lambda: without("exp"),
    "without an audience": lambda: without("aud"),
    "without a subject": lambda: without("sub"),
    "without an issuer": lambda: without("iss"),
    "ended": lambda: signed(exp=NOW - 31),
    "not good yet": lambda: signed(nbf=NOW + 31),
    "with an end that is no time": lambda: signed(exp=1e300),
    "too long": lambda: signed(groups=["x" * LONGEST_TOKEN]),
    "nonsense": lambda: "eyJ.eyJ.x",
    "nonsense in Base64": lambda: "eyJhbGciOiJSUzI1NiJ9.!!!.!!!",
}


@pytest.mark.parametrize("forged", FORGED)
def test_a_token_that_is_not_good_is_refused_counted_and_not_repeated(forged: str) -> None:
    scene = Scene()
    assert scene.refusal(FORGED[forged]())
    assert scene.tokens.refused == 1


@cache
def good_token() -> str:
    return signed()


@given(st.integers(0, 700), st.sampled_from(["A", "-", "_", "z", ".", ""]))
def test_no_single_change_of_a_good_token_is_let_in(place: int, letter: str) -> None:
    scene, good = Scene(), good_token()
    place %= len(good)
    bad = good[:place] + letter + good[place + 1 :]
    # The last letters of a part may stand for the same bytes.
    same = (
        bad == good
        or [jwt.utils.base64url_decode(part) for part in bad.split(".")]
        == [jwt.utils.base64url_decode(part) for part in good.split(".")]
        if bad.count(".") == 2 and all(len(part) % 4 != 1 for part in bad.split("."))
        else False
    )
    if not same:
        with pytest.raises(Unauthenticated):
            scene.access.caller(bad)


def test_a_token_ends_while_it_is_remembered() -> None:
    scene, token = Scene(), signed(exp=NOW + 10)
    assert scene.access.caller(token).may(Right.OPERATE, "*")
    scene.clock.seconds += 39
    assert scene.access.caller(token).may(Right.OPERATE, "*")
    scene.clock.seconds += 1
    assert "has ended" in scene.refusal(token)


def test_a_key_that_the_provider_takes_back_counts_no_more_although_its_tokens_are_remembered() -> None:
    scene, token = Scene(), signed()
    scene.access.caller(token)
    other = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(rsa_key(2).public_key())) | {"kid": "other", "alg": "RS256"}
    scene.openid.take(json.dumps({"keys": [other]}).encode())
    assert "does not publish" in scene.refusal(token)
    assert scene.access.caller(signed(2, "other")).may(Right.OPERATE, "*")


def test_what_is_remembered_is_bounded() -> None:
    scene = Scene()
    body = claims()
    for number in range(3):
        scene.openid._known = dict.fromkeys(map(str, range(MOST_KNOWN)), scene.openid.claims(good_token()))
        scene.access.caller(jwt.encode(body | {"sub": str(number)}, rsa_key(1), "RS256", headers={"kid": "one"}))
        assert len(scene.openid._known) <= MOST_KNOWN


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (b"[]", "expected a JWKS"),
        (b"{", "Expecting"),
        (b'{"keys": []}', "there is no key for one of"),
        (b'{"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "one", "alg": "HS256"}]}', "there is no key for one of"),
    ],
)
def test_keys_that_cannot_be_used_change_nothing(document: bytes, why: str) -> None:
    scene = Scene()
    with pytest.raises(ValueError, match=why):
        scene.openid.take(document)
    assert scene.access.caller(signed()).may(Right.OPERATE, "*")


def test_no_subject_writes_lines_of_a_log() -> None:
    caller = Scene().access.caller(signed(sub="robot\n2026 the boss\x1b[31m\u2028" + "x" * 500))
    shown, _, told_apart = caller.name.partition(" #")
    assert shown == "subject " + ("robot?2026 the boss?[31m?" + "x" * 500)[:100]
    assert len(told_apart) == 16


def test_no_two_subjects_have_one_name() -> None:
    access = Scene().access
    long = "x" * 100
    subjects = ["a\nb", "a\tb", "a?b", long, long + "1", long + "2"]
    subjects.append(access.caller(signed(sub=long + "1")).name.removeprefix("subject "))
    assert len({access.caller(signed(sub=subject)).name for subject in subjects}) == len(subjects)


def test_groups_may_stand_within_another_claim() -> None:
    scene = Scene(oidc_groups="realm_access.roles")
    token = signed(groups=["platform"], realm_access={"roles": ["shop", 7]})
    assert scene.access.caller(token).may(Right.REGISTER, "com.example.Shop")
    assert not scene.access.caller(token).may(Right.OPERATE, "*")
    assert not scene.access.caller(signed(realm_access="platform")).may(Right.OPERATE, "*")


def test_before_the_keys_are_read_the_caller_is_asked_to_come_again() -> None:
    openid = OpenIdTokens(rules(), Clock())
    with pytest.raises(Unreachable, match="not known yet"):
        openid.claims(signed())


def test_keys_come_from_the_place_that_the_discovery_document_names(caplog: pytest.LogCaptureFixture) -> None:
    documents = {
        f"{ISSUER}/.well-known/openid-configuration": json.dumps(
            {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/keys"}
        ).encode(),
        f"{ISSUER}/keys": jwks(),
    }
    openid = OpenIdTokens(rules(), Clock(), documents.__getitem__)
    asyncio.run(openid.refresh())
    assert (openid.is_known, openid.failures) == (True, 0)
    documents[f"{ISSUER}/.well-known/openid-configuration"] = json.dumps(
        {"issuer": ISSUER, "jwks_uri": "http://keys.example.com"}
    ).encode()
    with caplog.at_level(logging.ERROR):
        asyncio.run(openid.refresh())
    assert (openid.is_known, openid.failures) == (True, 1)
    assert "expected https" in caplog.text


@pytest.mark.parametrize("error", [BadStatusLine("x"), OSError("no way"), ValueError("no JSON")])
def test_a_provider_that_answers_nonsense_is_counted_and_asked_again(error: Exception) -> None:
    def fetch(place: str) -> bytes:
        raise error

    openid = OpenIdTokens(rules(), Clock(), fetch)
    asyncio.run(openid.refresh())
    assert (openid.is_known, openid.failures) == (False, 1)


def test_a_discovery_document_that_is_too_deep_is_none() -> None:
    openid = OpenIdTokens(rules(), Clock(), lambda place: b"[" * 100_000)
    asyncio.run(openid.refresh())
    assert (openid.is_known, openid.failures) == (False, 1)


def test_keys_may_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    path.write_bytes(jwks())
    openid = OpenIdTokens(rules(oidc_keys=str(path)), Clock())
    asyncio.run(openid.refresh())
    assert openid.claims(signed()).groups == ("platform",)


# --- certificates ----------------------------------------------------------------------------------------------------


def as_caller(scene: Scene, *uris: str) -> VouchedAccess:
    ORIGIN.set(Origin("10.0.0.1", ShownCertificate(uris, scene.clock.wall_ms() + 1_000)))
    return scene.access


def test_a_certificate_gives_the_rights_of_the_uris_in_it() -> None:
    scene = Scene()
    shop = as_caller(scene, "spiffe://example.com/ns/shop/1").caller(None)
    assert shop.name == "certificate spiffe://example.com/ns/shop/1"
    assert shop.may(Right.REGISTER, "com.example.Shop")
    assert not shop.may(Right.READ, "com.example.Shop")
    assert as_caller(scene, "spiffe://example.com/ns/ops").caller(None).may(Right.OPERATE, "*")
    # A token says more than the certificate of a proxy that all callers share.
    assert as_caller(scene, "spiffe://example.com/ns/ops").caller("slotreeve.1.s").name == "reader"


@pytest.mark.parametrize(
    "uri", ["spiffe://example.com/ns/other", "spiffe://evil.com/ns/ops", "spiffe://example.com/ns/ops/x", "ns/ops", ""]
)
def test_another_certificate_gives_nothing(uri: str) -> None:
    with pytest.raises(Unauthenticated):
        as_caller(Scene(), uri).caller(None)


def test_a_browser_shows_its_certificate_for_any_page_so_it_does_not_count_there() -> None:
    shown = ShownCertificate(("spiffe://example.com/ns/ops",), 7)
    state = {CERTIFICATE: shown}
    scope = {"type": "http", "client": ("10.0.0.1", 7), "state": state, "headers": [(b"host", b"x")]}
    assert Origin.of(scope) == Origin("10.0.0.1", shown)
    for name in (b"origin", b"sec-fetch-site"):
        assert Origin.of({**scope, "headers": [(name, b"https://evil.com")]}) == Origin("10.0.0.1")


def test_a_certificate_counts_no_more_once_it_has_ended_also_within_a_request() -> None:
    scene = Scene()
    access = as_caller(scene, "spiffe://example.com/ns/ops")
    assert access.caller(None).may(Right.OPERATE, "*")
    scene.clock.seconds += 2
    with pytest.raises(Unauthenticated):
        access.caller(None)
