"""One certificate for all who know the secret, and TLS between them only."""

from __future__ import annotations

import ssl
import sys
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from framework.errors import ConfigError
from framework.net.certificate import make_certificate, tls_context
from framework.wire.credentials import Credentials

KEY = Credentials(b"s" * 32).tls_key


def test_whoever_knows_the_secret_makes_the_same_certificate_and_nobody_else_does():
    assert make_certificate(KEY) == make_certificate(Credentials(b"s" * 32, "another run").tls_key)
    assert make_certificate(KEY)[1] != make_certificate(Credentials(b"t" * 32).tls_key)[1]
    certificate = x509.load_pem_x509_certificate(make_certificate(KEY)[1])
    assert certificate.not_valid_before_utc == datetime(2000, 1, 1, tzinfo=UTC)
    assert certificate.not_valid_after_utc == datetime(9999, 12, 31, tzinfo=UTC)


def test_the_key_has_nothing_to_do_with_that_of_the_handshake():
    assert Credentials(b"s" * 32).handshake_key != KEY
    assert HKDF(hashes.SHA256(), 32, salt=None, info=b"hailer tls").derive(b"s" * 32) == KEY


def test_nothing_older_and_nobody_unknown_is_talked_to():
    for server_side in (False, True):
        context = tls_context(KEY, server_side=server_side)
        assert (context.minimum_version, context.verify_mode) == (ssl.TLSVersion.TLSv1_3, ssl.CERT_REQUIRED)
        assert len(context.get_ca_certs()) + context.cert_store_stats()["x509"] >= 1


def test_without_the_package_one_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(ConfigError, match=r"needs the package cryptography.*install it, or give --no-tls"):
        make_certificate(KEY)
