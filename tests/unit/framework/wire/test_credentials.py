"""Keys that are made of one secret, each for one use."""

from __future__ import annotations

from framework.wire.credentials import Credentials, hkdf


def test_keys_are_derived_as_rfc_5869_says():
    assert hkdf(b"\x0b" * 22, b"").hex() == "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"  # A.3


def test_credentials_that_are_shown_do_not_show_the_secret():
    assert "sss" not in repr(Credentials(b"s" * 32, "5e1f"))


def test_each_secret_has_its_key_whatever_the_run():
    assert Credentials(b"s" * 32, "5e1f").handshake_key == Credentials(b"s" * 32).handshake_key
    assert Credentials(b"s" * 32).handshake_key != Credentials(b"t" * 32).handshake_key
