"""How a connection becomes a link: each end proves that it knows the cluster's secret, and then the client is admitted.

::

    client                                                   server
      | magic, version, client nonce (40 bytes)           -->  |
      |        <-- magic, version, server nonce, server proof  |
      | client proof, Hello                               -->  |
      |            <-- verdict: welcome, or refused and why;   |
      |                server proof of it                      |

A `Hello` says which run of a job, and which generation of it, the client is of, and what the connection is for
(`framework.wire.purpose`).

A proof is an HMAC of all that was said so far, and of what is said with it, under a key made of the secret. So an
attacker who relays two honest ends to each other can change nothing of what they say, and an old conversation proves
nothing: each has a nonce in it that is new. Proofs of the two sides have different labels, so that neither can be
sent back to where it came from. The secret itself never travels. Until its proof is verified nothing that a client
sends is parsed, and a client that speaks out of turn is cut off, so little of it is ever held.

Bytes in, bytes out. Nonces are arguments; deadlines and sockets belong to `framework.net`.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from framework.errors import PeerRefused, ProtocolError, SecretMismatch
from framework.progress.order import EPOCH_MAX
from framework.wire import purpose as purposes
from framework.wire.codec import decode_value, encode_value
from framework.wire.credentials import Credentials
from framework.wire.framing import PREFIX_BYTES, frame
from framework.wire.purpose import Purpose

MAGIC = b"HAILER"
VERSION = 5
NONCE_BYTES = 32
PROOF_BYTES = 32
HELLO_BYTES_MAX = 512
"""The limit of a Hello and of a verdict."""

RUN_CHARS_MAX = 64

TLS_HANDSHAKE = b"\x16\x03"
TLS_ALERT = b"\x15\x03"
"""How records of TLS begin."""
ENCRYPT_ALIKE = (
    "give --no-tls to all processes or to none; to all, if a port is forwarded, so that the ends see other addresses"
)

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

    Clients of another run or generation are refused, and those with a purpose that is not `served`; of the others,
    `admit` returns why one is, or None.
    """

    __slots__ = ("_admit", "_buffer", "_credentials", "_nonce", "_served", "_transcript")

    def __init__(
        self, credentials: Credentials, nonce: bytes, served: tuple[type[P], ...], admit: Callable[[P], str | None]
    ) -> None:
        assert len(nonce) == NONCE_BYTES, len(nonce)
        self._credentials = credentials
        self._nonce = nonce
        self._served = served
        self._admit = admit
        self._buffer = b""
        self._transcript: _Transcript | None = None
        """What was said, once the client has opened the conversation."""

    def receive(self, data: bytes) -> tuple[bytes, Accepted[P] | Rejected | None]:
        """What to send, and the outcome once there is one."""
        self._buffer += data
        return self._opening() if self._transcript is None else self._hello(self._transcript)

    def _opening(self) -> tuple[bytes, Rejected | None]:
        head = self._buffer[: len(_PREAMBLE)]
        if head.startswith(TLS_HANDSHAKE):
            return _PREAMBLE, Rejected(f"it encrypts this connection, and this end does not: {ENCRYPT_ALIKE}")
        if head[: len(MAGIC)] != MAGIC[: len(head)]:
            return b"", Rejected(f"it does not speak this protocol, but began with {bytes(head)!r}")
        if len(head) == len(_PREAMBLE) and head != _PREAMBLE:
            return _PREAMBLE, Rejected(f"it speaks version {_version(head)} of the protocol, not {VERSION}")
        if len(self._buffer) > _OPENING_BYTES:
            return b"", Rejected("it spoke out of turn")
        if len(self._buffer) < _OPENING_BYTES:
            return b"", None
        self._transcript = _Transcript(self._credentials.handshake_key, self._buffer)
        self._buffer = b""
        answer = _PREAMBLE + self._nonce
        answer += self._transcript.proof(_SERVER, answer)
        self._transcript.add(answer)
        return answer, None

    def _hello(self, transcript: _Transcript) -> tuple[bytes, Accepted[P] | Rejected | None]:
        try:
            taken = _take_frame(self._buffer[PROOF_BYTES:])
        except ProtocolError as error:
            return b"", Rejected(str(error))
        if taken is None:
            return b"", None
        body, rest = taken
        said = self._buffer[: len(self._buffer) - len(rest)]
        if not hmac.compare_digest(said[:PROOF_BYTES], transcript.proof(_CLIENT, said[PROOF_BYTES:])):
            return b"", Rejected("it does not know the cluster's secret, or somebody in between changed what it said")
        transcript.add(said)
        if rest:
            return b"", Rejected("it spoke out of turn")
        try:
            hello = _Hello.decode(body)
        except ProtocolError as error:
            return b"", Rejected(str(error))
        refusal = self._refusal(hello)
        if refusal is not None:
            return transcript.verdict(False, refusal), Rejected(refusal)
        return transcript.verdict(True, ""), Accepted(hello.purpose)  # type: ignore[arg-type]

    def _refusal(self, hello: _Hello) -> str | None:
        ours = self._credentials
        if not isinstance(hello.purpose, self._served):
            return purposes.refusal(hello.purpose, self._served)
        if hello.run != ours.run:
            return f"it {_belongs(hello.run)}, and this process {_belongs(ours.run)}: another job, or another run of it"
        if hello.generation != ours.generation:
            return f"it is of generation {hello.generation} of the job, and this process of {ours.generation}"
        return self._admit(hello.purpose)


class ClientHandshake:
    """The client's side: send `opening`, then feed what comes. After `Welcomed` it must not be fed again."""

    __slots__ = ("_buffer", "_hello", "_nonce", "_proven", "_transcript")

    def __init__(self, credentials: Credentials, nonce: bytes, purpose: Purpose) -> None:
        assert len(nonce) == NONCE_BYTES, len(nonce)
        self._hello = _Hello(credentials.run, credentials.generation, purpose)
        self._transcript = _Transcript(credentials.handshake_key, _PREAMBLE + nonce)
        self._buffer = b""
        self._proven = False

    @property
    def opening(self) -> bytes:
        """What the client says first."""
        return self._transcript.opening

    def receive(self, data: bytes) -> tuple[bytes, Welcomed | None]:
        """What to send, and `Welcomed` once the server has said so.

        Raises `PeerRefused` with the server's reason, `SecretMismatch`, or `ProtocolError` for what is not a server.
        """
        self._buffer += data
        return self._verdict() if self._proven else (self._answer(), None)

    def _answer(self) -> bytes:
        head = self._buffer[: len(_PREAMBLE)]
        if head.startswith(TLS_ALERT):
            raise ProtocolError(f"it encrypts this connection, and this end does not: {ENCRYPT_ALIKE}")
        if head[: len(MAGIC)] != MAGIC[: len(head)]:
            raise ProtocolError(f"what listens there is not a Hailer process: it began with {bytes(head)!r}")
        if len(head) == len(_PREAMBLE) and head != _PREAMBLE:
            raise ProtocolError(f"it speaks version {_version(head)} of the protocol, not {VERSION}")
        if len(self._buffer) < _ANSWER_BYTES:
            return b""
        answer, self._buffer = self._buffer[:_ANSWER_BYTES], self._buffer[_ANSWER_BYTES:]
        if not hmac.compare_digest(answer[_OPENING_BYTES:], self._transcript.proof(_SERVER, answer[:_OPENING_BYTES])):
            raise SecretMismatch("it does not know the cluster's secret that this process has")
        self._transcript.add(answer)
        self._proven = True
        hello = frame(self._hello.encode())
        said = self._transcript.proof(_CLIENT, hello) + hello
        self._transcript.add(said)
        return said

    def _verdict(self) -> tuple[bytes, Welcomed | None]:
        taken = _take_frame(self._buffer)
        if taken is None or len(taken[1]) < PROOF_BYTES:
            return b"", None
        body, rest = taken
        if not hmac.compare_digest(rest[:PROOF_BYTES], self._transcript.proof(_VERDICT, frame(body))):
            raise ProtocolError("the verdict is not that of the server that was spoken to: somebody is in between")
        match decode_value(body):
            case [True, ""]:
                return b"", Welcomed(rest[PROOF_BYTES:])
            case [False, str(reason)]:
                raise PeerRefused(reason)
        raise ProtocolError("the verdict is not one")


@dataclass(frozen=True, slots=True)
class _Hello:
    run: str
    generation: int
    purpose: Purpose

    def encode(self) -> bytes:
        return encode_value([self.run, self.generation, purposes.encode(self.purpose)])

    @staticmethod
    def decode(body: bytes) -> _Hello:
        match decode_value(body):
            case [str(run), int(generation), bytes(purpose)] if (
                len(run) <= RUN_CHARS_MAX and type(generation) is int and 0 <= generation <= EPOCH_MAX
            ):
                return _Hello(run, generation, purposes.decode(purpose))
        raise ProtocolError("the Hello is not one")


_SERVER = b"hailer server\0"
_CLIENT = b"hailer client\0"
_VERDICT = b"hailer verdict\0"


class _Transcript:
    """What both sides have said so far, and proofs of it."""

    __slots__ = ("_key", "_said", "opening")

    def __init__(self, key: bytes, opening: bytes) -> None:
        self._key = key
        self._said = opening
        self.opening = opening

    def add(self, said: bytes) -> None:
        self._said += said

    def proof(self, role: bytes, saying: bytes) -> bytes:
        """The proof of one who says this now."""
        return hmac.digest(self._key, role + self._said + saying, "sha256")

    def verdict(self, welcome: bool, reason: str) -> bytes:
        """What a server says last."""
        verdict = frame(encode_value([welcome, reason[: HELLO_BYTES_MAX // 4 - 8]]))
        return verdict + self.proof(_VERDICT, verdict)


def _belongs(run: str) -> str:
    return f"is of run {run}" if run else "was started by hand"


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
