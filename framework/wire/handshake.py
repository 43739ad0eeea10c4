"""How a connection becomes a link: each end proves that it knows the cluster's secret, and then the client is admitted.

::

    client                                             server
      | magic, version, client nonce (40 bytes)     -->  |
      |  <-- magic, version, server nonce, server proof  |
      | client proof, Hello                         -->  |
      |  <-- verdict: welcome, or refused and why        |

A proof is an HMAC of both nonces under the secret, labelled with the role, so that neither side can send back what it
was sent, and an old conversation proves nothing. The secret itself never travels. Until its proof is verified nothing
that a client sends is parsed, and a client that speaks out of turn is cut off, so little of it is ever held.

A `Hello` says what the connection is for (`framework.wire.purpose`).

Bytes in, bytes out. Nonces are arguments; deadlines and sockets belong to `framework.net`.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from framework.errors import PeerRefused, ProtocolError, SecretMismatch
from framework.wire import purpose as purposes
from framework.wire.codec import decode_value, encode_value
from framework.wire.framing import PREFIX_BYTES, frame
from framework.wire.purpose import Purpose

MAGIC = b"HAILER"
VERSION = 4
NONCE_BYTES = 32
PROOF_BYTES = 32
HELLO_BYTES_MAX = 512
"""The limit of a Hello and of a verdict."""

_PREAMBLE = MAGIC + VERSION.to_bytes(2, "big")
_OPENING_BYTES = len(_PREAMBLE) + NONCE_BYTES
_ANSWER_BYTES = _OPENING_BYTES + PROOF_BYTES


P = TypeVar("P", bound=Purpose)


@dataclass(frozen=True, slots=True)
class Accepted(Generic[P]):
    """The server has welcomed this client: the connection is what it came for."""

    purpose: P


@dataclass(frozen=True, slots=True)
class Rejected:
    """The server wants nothing more of this client; send the reply, if any, and close."""

    reason: str


@dataclass(frozen=True, slots=True)
class Welcomed:
    """The client is welcome; these bytes came behind the welcome already."""

    leftover: bytes


class ServerHandshake(Generic[P]):
    """The server's side. After an outcome it must not be fed again.

    Clients with a purpose that is not `served` are refused; of the others, `admit` returns why one is, or None.
    """

    __slots__ = ("_admit", "_buffer", "_client_nonce", "_nonce", "_proven", "_secret", "_served")

    def __init__(
        self, secret: bytes, nonce: bytes, served: tuple[type[P], ...], admit: Callable[[P], str | None]
    ) -> None:
        assert len(nonce) == NONCE_BYTES, len(nonce)
        self._secret = secret
        self._nonce = nonce
        self._served = served
        self._admit = admit
        self._buffer = b""
        self._client_nonce: bytes | None = None
        self._proven = False

    def receive(self, data: bytes) -> tuple[bytes, Accepted[P] | Rejected | None]:
        """What to send, and the outcome once there is one."""
        self._buffer += data
        if self._client_nonce is None:
            return self._opening()
        if not self._proven:
            if len(self._buffer) < PROOF_BYTES:
                return b"", None
            if not hmac.compare_digest(
                self._buffer[:PROOF_BYTES], _proof(self._secret, _CLIENT, self._client_nonce, self._nonce)
            ):
                return b"", Rejected("it does not know the cluster's secret")
            self._proven = True
            self._buffer = self._buffer[PROOF_BYTES:]
        return self._hello()

    def _opening(self) -> tuple[bytes, Rejected | None]:
        head = self._buffer[: len(_PREAMBLE)]
        if head[: len(MAGIC)] != MAGIC[: len(head)]:
            return b"", Rejected(f"it does not speak this protocol, but began with {bytes(head)!r}")
        if len(head) == len(_PREAMBLE) and head != _PREAMBLE:
            return _PREAMBLE, Rejected(f"it speaks version {_version(head)} of the protocol, not {VERSION}")
        if len(self._buffer) > _OPENING_BYTES:
            return b"", Rejected("it spoke out of turn")
        if len(self._buffer) < _OPENING_BYTES:
            return b"", None
        self._client_nonce = self._buffer[len(_PREAMBLE) :]
        self._buffer = b""
        return _PREAMBLE + self._nonce + _proof(self._secret, _SERVER, self._client_nonce, self._nonce), None

    def _hello(self) -> tuple[bytes, Accepted[P] | Rejected | None]:
        try:
            taken = _take_frame(self._buffer)
            if taken is None:
                return b"", None
            body, rest = taken
            purpose = purposes.decode(body)
        except ProtocolError as error:
            return b"", Rejected(str(error))
        if rest:
            return b"", Rejected("it spoke out of turn")
        if isinstance(purpose, self._served):
            refusal = self._admit(purpose)
            if refusal is None:
                return _verdict(True, ""), Accepted(purpose)
        else:
            refusal = purposes.refusal(purpose, self._served)
        return _verdict(False, refusal), Rejected(refusal)


class ClientHandshake:
    """The client's side: send `opening`, then feed what comes. After `Welcomed` it must not be fed again."""

    __slots__ = ("_buffer", "_nonce", "_proven", "_purpose", "_secret")

    def __init__(self, secret: bytes, nonce: bytes, purpose: Purpose) -> None:
        assert len(nonce) == NONCE_BYTES, len(nonce)
        self._secret = secret
        self._nonce = nonce
        self._purpose = purpose
        self._buffer = b""
        self._proven = False

    @property
    def opening(self) -> bytes:
        """What the client says first."""
        return _PREAMBLE + self._nonce

    def receive(self, data: bytes) -> tuple[bytes, Welcomed | None]:
        """What to send, and `Welcomed` once the server has said so.

        Raises `PeerRefused` with the server's reason, `SecretMismatch`, or `ProtocolError` for what is not a server.
        """
        self._buffer += data
        if not self._proven:
            return self._answer(), None
        taken = _take_frame(self._buffer)
        if taken is None:
            return b"", None
        body, leftover = taken
        match decode_value(body):
            case [True, ""]:
                return b"", Welcomed(leftover)
            case [False, str(reason)]:
                raise PeerRefused(reason)
        raise ProtocolError("the verdict is not one")

    def _answer(self) -> bytes:
        head = self._buffer[: len(_PREAMBLE)]
        if head[: len(MAGIC)] != MAGIC[: len(head)]:
            raise ProtocolError(f"what listens there is not a Hailer process: it began with {bytes(head)!r}")
        if len(head) == len(_PREAMBLE) and head != _PREAMBLE:
            raise ProtocolError(f"it speaks version {_version(head)} of the protocol, not {VERSION}")
        if len(self._buffer) < _ANSWER_BYTES:
            return b""
        answer, self._buffer = self._buffer[:_ANSWER_BYTES], self._buffer[_ANSWER_BYTES:]
        nonce, proof = answer[len(_PREAMBLE) : _OPENING_BYTES], answer[_OPENING_BYTES:]
        if not hmac.compare_digest(proof, _proof(self._secret, _SERVER, self._nonce, nonce)):
            raise SecretMismatch("it does not know the cluster's secret that this process has")
        self._proven = True
        return _proof(self._secret, _CLIENT, self._nonce, nonce) + frame(purposes.encode(self._purpose))


_SERVER = b"hailer server\0"
_CLIENT = b"hailer client\0"


def _proof(secret: bytes, role: bytes, client_nonce: bytes, server_nonce: bytes) -> bytes:
    return hmac.digest(secret, role + client_nonce + server_nonce, "sha256")


def _version(preamble: bytes) -> int:
    return int.from_bytes(preamble[len(MAGIC) :], "big")


def _take_frame(buffer: bytes) -> tuple[bytes, bytes] | None:
    """The body of the first frame and what follows it, or None until it is complete."""
    if len(buffer) < PREFIX_BYTES:
        return None
    end = PREFIX_BYTES + int.from_bytes(buffer[:PREFIX_BYTES], "big")
    if end > PREFIX_BYTES + HELLO_BYTES_MAX:
        raise ProtocolError(f"{end - PREFIX_BYTES} bytes of handshake, and the limit is {HELLO_BYTES_MAX}")
    if len(buffer) < end:
        return None
    return buffer[PREFIX_BYTES:end], buffer[end:]


def _verdict(welcome: bool, reason: str) -> bytes:
    return frame(encode_value([welcome, reason[: HELLO_BYTES_MAX // 4 - 8]]))
