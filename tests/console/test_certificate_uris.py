"""Which URI of a caller's certificate says who it is."""

from __future__ import annotations

from slotreeve_console.http_connection import _uris_of


def test_one_uri_says_who_a_caller_is_and_several_say_of_nobody() -> None:
    one = ("URI", "spiffe://example.com/shop")
    assert _uris_of({"subjectAltName": (("DNS", "shop"), one)}) == ("spiffe://example.com/shop",)
    assert _uris_of({"subjectAltName": (one, ("URI", "spiffe://example.com/ops"))}) == ()
    assert _uris_of({"subjectAltName": (("DNS", "spiffe://example.com/shop"),)}) == ()
    assert _uris_of({}) == ()
