"""A connection that is encrypted with TLS: which are, `framework.net.link_socket` decides.

`TlsConnection` has what links use of a socket, and behaves as a socket does, blocking or not. OpenSSL works on memory
here: ciphertext is moved from and to the socket in large pieces, which takes far fewer system calls than a record each,
and what it has decrypted and what the kernel has not taken yet is known exactly.
"""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from framework.errors import ProtocolError, SecretMismatch
from framework.wire.codec import Buffer
from framework.wire.handshake import ENCRYPT_ALIKE, MAGIC, TLS_ALERT, TLS_HANDSHAKE

RECORD_BYTES = 16 * 1024
"""No record of TLS holds more."""
READ_BYTES_MIN = 4 * 1024
READ_BYTES_MAX = 256 * 1024
"""Of ciphertext, at once."""
FILL_BYTES_MAX = 1024 * 1024
"""How much `recv_into` decrypts at most."""
SEND_BYTES_MAX = 256 * 1024
"""How much `sendmsg` encrypts at most."""
HANDSHAKE_BYTES_MAX = 16 * 1024
"""What an end that has not proven itself may send."""

_WRONG_VERSION = TLS_ALERT + b"\x03\x00\x02\x02\x46"
"""The alert `protocol_version`, which tells a client that does not speak TLS that we do."""


class TlsConnection:
    """An encrypted connection. Two threads must not use it at once, but another may shut it down."""

    __slots__ = (
        "_heard",
        "_incoming",
        "_outgoing",
        "_secured",
        "_sending",
        "_server_side",
        "_tls",
        "_unread",
        "_unsent",
        "socket",
    )

    def __init__(self, connection: socket.socket, context: ssl.SSLContext, *, server_side: bool) -> None:
        self.socket = connection
        self._server_side = server_side
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server_side)
        self._secured = False
        self._heard = 0
        """How many bytes came before it was secured."""
        self._unread = b""
        self._unsent = memoryview(b"")
        """Ciphertext that the kernel has not taken yet."""
        self._sending = 0
        """How many bytes of their pieces `sendmsg` has encrypted for that."""

    @property
    def pending(self) -> int:
        """How much is decrypted and not received yet: of that no selector knows."""
        return len(self._unread)

    def do_handshake(self) -> None:
        """Come to terms with the other end. Raises `BlockingIOError` as long as it is to be called again."""
        while not self._secured:
            try:
                self._tls.do_handshake()
                self._secured = True
            except ssl.SSLWantReadError:
                self._push()
                if not self._pull(READ_BYTES_MIN):
                    raise ConnectionResetError(errno.ECONNRESET, "it hung up during the handshake") from None
            except ssl.SSLError as error:
                with suppress(OSError):  # what we have against it
                    self._push()
                raise _refusal(error) from error
        self._push()

    def recv(self, size: int) -> bytes:
        """As of a socket."""
        if not self._unread:
            self._unread = self._receive(size)
        received, self._unread = self._unread[:size], self._unread[size:]
        return received

    def recv_into(self, room: memoryview) -> int:
        """As of a non-blocking socket."""
        if self._unread:
            count = min(len(room), len(self._unread))
            room[:count] = self._unread[:count]
            self._unread = self._unread[count:]
            return count
        if not self._secured:
            self.do_handshake()
        room, filled = room[:FILL_BYTES_MAX], 0
        while filled < len(room):
            try:
                count = self._tls.read(len(room) - filled, room[filled:])  # type: ignore[assignment]
            except ssl.SSLWantReadError:
                try:
                    if not self._pull(READ_BYTES_MAX):
                        break
                except BlockingIOError:
                    if filled:
                        break
                    raise
            except ssl.SSLError as error:
                raise _failure(error) from error
            else:
                if not count:
                    break
                filled += count
        if filled == len(room):
            self._unread = self._decrypted()
        return filled

    def sendmsg(self, pieces: Iterable[Buffer]) -> int:
        """As of a non-blocking socket; but after `BlockingIOError` the same pieces must come first again."""
        if not self._unsent:
            self._sending = self._encrypt(pieces)
        self._push()
        sent, self._sending = self._sending, 0
        return sent

    def send(self, data: bytes) -> int:
        """As `sendmsg`, of one piece."""
        return self.sendmsg([data])

    def sendall(self, data: bytes) -> None:
        """As of a socket; of a non-blocking one, little enough that the kernel takes it."""
        view = memoryview(data)
        while view or self._unsent:
            self.socket.sendall(self._unsent)
            view = view[self._encrypt([view]) :]

    def shutdown(self, how: int) -> None:
        """As of a socket: what is said last is for those who speak over it."""
        self.socket.shutdown(how)

    def close(self) -> None:
        """Release the socket."""
        self.socket.close()

    def fileno(self) -> int:
        """The socket's descriptor, to be selected on."""
        return self.socket.fileno()

    def setblocking(self, flag: bool) -> None:
        """As of a socket."""
        self.socket.setblocking(flag)

    def settimeout(self, timeout_s: float | None) -> None:
        """As of a socket."""
        self.socket.settimeout(timeout_s)

    def getsockname(self) -> Any:
        """As of a socket."""
        return self.socket.getsockname()

    def getpeername(self) -> Any:
        """As of a socket."""
        return self.socket.getpeername()

    def _receive(self, size: int) -> bytes:
        """What there is, once there is something; nothing at the end."""
        if not self._secured:
            self.do_handshake()
        while not (data := self._decrypted()):
            if not self._pull(min(max(size, READ_BYTES_MIN), READ_BYTES_MAX)):
                break
        return data

    def _decrypted(self) -> bytes:
        """All that can be decrypted of what was read from the socket."""
        records: list[bytes] = []
        try:
            while record := self._tls.read(RECORD_BYTES):
                records.append(record)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise _failure(error) from error
        return records[0] if len(records) == 1 else b"".join(records)

    def _encrypt(self, pieces: Iterable[Buffer]) -> int:
        """How much of the pieces `_unsent` has now."""
        left = SEND_BYTES_MAX
        for piece in pieces:
            view = memoryview(piece)[:left]
            left -= len(view)
            while view:
                view = view[self._tls.write(view) :]
            if not left:
                break
        self._unsent = memoryview(self._outgoing.read())
        return SEND_BYTES_MAX - left

    def _pull(self, size: int) -> int:
        data = self.socket.recv(size)
        if not self._secured:
            self._check(data)
        return self._incoming.write(data)

    def _check(self, data: bytes) -> None:
        """Look at what one says that has not proven itself."""
        if self._heard == 0 and data and data[:1] not in (TLS_HANDSHAKE[:1], TLS_ALERT[:1]):
            if self._server_side:
                with suppress(OSError):
                    self.socket.send(_WRONG_VERSION)
            if data.startswith(MAGIC):
                raise ProtocolError(f"it does not encrypt this connection, and this end does: {ENCRYPT_ALIKE}")
            raise ProtocolError(f"it does not speak this protocol, but began with {data[: len(MAGIC)]!r}")
        self._heard += len(data)
        if self._heard > HANDSHAKE_BYTES_MAX:
            raise ProtocolError(f"it sent more than {HANDSHAKE_BYTES_MAX} bytes and proved nothing")

    def _push(self) -> None:
        if self._outgoing.pending:
            self._unsent = memoryview(bytes(self._unsent) + self._outgoing.read())
        while self._unsent:
            self._unsent = self._unsent[self.socket.send(self._unsent) :]


def _refusal(error: ssl.SSLError) -> Exception:
    """What is wrong with the other end, or with us in its eyes."""
    if isinstance(error, ssl.SSLCertVerificationError) or error.reason in _UNTRUSTED:
        return SecretMismatch("it does not know the cluster's secret that this process has")
    return ProtocolError(f"TLS failed: {_reason(error)}")


_UNTRUSTED = ("TLSV1_ALERT_UNKNOWN_CA", "TLSV1_ALERT_DECRYPT_ERROR", "SSLV3_ALERT_BAD_CERTIFICATE")


def _failure(error: ssl.SSLError) -> OSError:
    return ConnectionAbortedError(errno.ECONNABORTED, f"TLS failed: {_reason(error)}")


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()
