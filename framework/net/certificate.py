"""The certificate of a cluster, which every process makes by itself of the secret, and TLS that takes no other.

The private key is derived from the secret, and everything else in the certificate is fixed: so all processes have the
same one, byte for byte, and a peer that proves its key knows the secret. It names nobody, and never ends.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from framework.errors import ConfigError

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

BEGINS = datetime(2000, 1, 1, tzinfo=UTC)
ENDS = datetime(9999, 12, 31, tzinfo=UTC)
CONTEXTS_MAX = 16


@lru_cache(CONTEXTS_MAX)
def tls_context(key: bytes, *, server_side: bool) -> ssl.SSLContext:
    """TLS 1.3 between processes that have the certificate of this key, and nobody else."""
    key_pem, certificate_pem = make_certificate(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server_side else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=certificate_pem.decode())
    with _file_of(key_pem + certificate_pem) as path:
        context.load_cert_chain(path)
    if server_side:
        context.num_tickets = 0  # nobody resumes a session
    return context


def make_certificate(key: bytes, *, ends: datetime = ENDS) -> tuple[bytes, bytes]:
    """The private key of this seed, and its certificate, in PEM."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    except ImportError as error:
        raise ConfigError(
            f"connections to other machines are encrypted, which needs the package cryptography, and that cannot be "
            f"loaded ({error}); install it, or give --no-tls to all processes"
        ) from error
    private = Ed25519PrivateKey.from_private_bytes(key)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "hailer")])
    certificate: Certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(1)
        .not_valid_before(BEGINS)
        .not_valid_after(ends)
        .sign(private, None)
    )
    return (
        private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        certificate.public_bytes(Encoding.PEM),
    )


@contextmanager
def _file_of(content: bytes) -> Iterator[str]:
    """A path at which OpenSSL reads this, and nobody else does: in memory, where the system can do that."""
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        with os.fdopen(os.memfd_create("hailer"), "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
