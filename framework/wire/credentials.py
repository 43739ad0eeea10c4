"""By what the processes of one run of a job know each other: a secret, the run, and its generation.

Each use of the secret has a key of its own, so that nothing that is done with one says anything of another.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from enum import Enum

HASH_BYTES = 32


class Encryption(Enum):
    """Which connections are encrypted. Both ends must say the same."""

    BETWEEN_MACHINES = "between machines"
    NEVER = "never"
    ALWAYS = "always"
    """Also on one machine: for tests and measurements."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a process shows to others of its run, and wants to see of them."""

    secret: bytes = field(repr=False)
    run: str = ""
    """A random name of the run, where one supervisor starts all processes. Of processes that are started by hand nobody
    could tell them one: for them all jobs with the same secret are one run."""
    generation: int = 0
    """How often the job was recovered."""
    encryption: Encryption = Encryption.BETWEEN_MACHINES

    @property
    def handshake_key(self) -> bytes:
        """What proofs of the handshake are made with."""
        return hkdf(self.secret, b"hailer handshake")

    @property
    def tls_key(self) -> bytes:
        """The private key of the certificate with which connections are encrypted."""
        return hkdf(self.secret, b"hailer tls")


def hkdf(secret: bytes, label: bytes) -> bytes:
    """A key for one purpose, made of a secret: HKDF-SHA256 (RFC 5869) without a salt, cut to one block."""
    extracted = hmac.digest(bytes(HASH_BYTES), secret, "sha256")
    return hmac.digest(extracted, label + b"\x01", "sha256")
