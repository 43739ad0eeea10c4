"""Events in a file: a magic number, and then frames as they would go to another worker. No pickle.

The file of a run that crashed ends early, in the middle of a frame or between two. The reader finds out either way,
because a complete capture ends with an empty frontier.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path

from framework.errors import ProtocolError
from framework.wire import messages
from framework.wire.framing import FrameReader, frame
from operators.capture.event import CapturedEvent, MessagesEvent, ProgressEvent
from operators.errors import CaptureCorrupt, CaptureTruncated

MARK = b"hailer capture 1\n"
READ_BYTES = 1 << 20


class EventWriter:
    """Writes the events of one captured stream on one worker into a file, replacing what was there.

    What was written so far is handed to the operating system with each change of the frontier.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._file = self._path.open("wb")
        self._file.write(MARK)
        self._batches = 0
        self._open_times = 1

    def push(self, event: CapturedEvent) -> None:
        """Write one more event; the end of the stream closes the file."""
        match event:
            case MessagesEvent(time, container):
                data = messages.Data(0, time, container)
                for body in messages.encode_whole(data, where=f"the capture into {self._path}"):
                    self._file.write(frame(body))
            case ProgressEvent(changes):
                batch = tuple((0, time, change) for time, change in changes)
                self._file.write(frame(messages.encode(messages.Progress(0, self._batches, batch))))
                self._file.flush()
                self._batches += 1
                self._open_times += sum(change for _, change in changes)
                if self._open_times == 0:
                    self.close()

    def close(self) -> None:
        """Close the file, complete or not."""
        self._file.close()


class EventReader:
    """Reads the events that an `EventWriter` wrote.

    A file that ends early raises `CaptureTruncated` once everything before has been read. With `allow_truncated=True`
    its end is taken for the end of the stream, so the last times may lack records.
    """

    def __init__(self, path: str | Path, *, allow_truncated: bool = False) -> None:
        self._path = Path(path)
        self._allow_truncated = allow_truncated

    def open(self, wake: Callable[[], None]) -> FileCursor:
        """Start reading at the first event."""
        return FileCursor(self._path, self._allow_truncated)


class FileCursor:
    """One reader's position in a file of events."""

    def __init__(self, path: Path, allow_truncated: bool) -> None:
        self._path = path
        self._allow_truncated = allow_truncated
        self._frames = FrameReader()
        self._events: deque[CapturedEvent] = deque()
        self._events_read = 0
        self._batches = 0
        self._open_times = 1
        self._file = path.open("rb")
        self.ended = False
        mark = self._file.read(len(MARK))
        if mark != MARK:
            self._file.close()
            if MARK.startswith(mark):
                raise CaptureTruncated(f"{path} ends within its first {len(MARK)} bytes")
            raise CaptureCorrupt(f"{path} is no capture: it does not begin with {MARK!r}")

    def next_event(self) -> CapturedEvent | None:
        """The next event, or None at the end."""
        while not self._events and not self.ended:
            self._read_on()
        if not self._events:
            return None
        self._events_read += 1
        return self._events.popleft()

    def close(self) -> None:
        """Read no more."""
        self._file.close()

    def _read_on(self) -> None:
        data = self._file.read(READ_BYTES)
        if data:
            try:
                self._events.extend(self._decode(messages.decode(body)) for body in self._frames.feed(data))
            except ProtocolError as error:
                raise CaptureCorrupt(
                    f"{self._path} is damaged after event {self._events_read + len(self._events)}, before byte "
                    f"{self._file.tell()}: {error}"
                ) from error
            return
        self.ended = True
        self._file.close()
        if (self._open_times or self._frames.pending_bytes) and not self._allow_truncated:
            raise CaptureTruncated(
                f"{self._path} ends after {self._events_read} events and {self._frames.pending_bytes} bytes, before "
                f"the stream does: its writer has crashed, or is still writing; to read as far as it goes, use "
                f"EventReader(path, allow_truncated=True)"
            )

    def _decode(self, message: messages.Message) -> CapturedEvent:
        match message:
            case messages.Data(0, time, container):
                return MessagesEvent(time, container)
            case messages.Progress(0, sequence, changes) if sequence == self._batches:
                self._batches += 1
                self._open_times += sum(change for _, _, change in changes)
                return ProgressEvent(tuple((time, change) for _, time, change in changes))
        raise ProtocolError(f"a {type(message).__name__} that no capture writes there")
