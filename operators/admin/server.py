"""The admin endpoint of a job: JSON over HTTP, on the loopback interface, for who holds the job's token.

`GET /NAME?key=value` asks and `POST /NAME` with a JSON object does; both answer with a JSON object, and errors are
`{"error": "what is wrong and what to do"}`. What can be asked is not said here
(`operators.control.admin_routes`).
"""

from __future__ import annotations

import hmac
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from framework.errors import UserError, WorldError
from operators.admin.errors import JobEnded
from operators.admin.json_codec import to_json

BODY_BYTES_MAX = 4 * 1024 * 1024
IDLE_S_MAX = 30.0
"""A connection on which so long nothing comes or goes is closed."""
REQUEST_S_MAX = 10.0
"""How long a whole request may take to come, with what precedes it, however busy its connection is."""
CONNECTIONS_MAX = 32
ACCEPT_PAUSE_S = 0.1

Handler = Callable[[Mapping[str, Any]], Any]
"""Takes the arguments of a request, and returns a dataclass, or what JSON has."""


class AdminServer:
    """Serves requests until it is closed."""

    def __init__(
        self, token: str, *, reads: Mapping[str, Handler], actions: Mapping[str, Handler], host: str = "127.0.0.1"
    ) -> None:
        self._server = _Server((host, 0), token, {"GET": reads, "POST": actions})
        self.host = host
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.1], name="admin", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Serve no more; requests under way end with the process."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], token: str, methods: Mapping[str, Mapping[str, Handler]]) -> None:
        self.token = token
        self.methods = methods
        self._due: dict[socket.socket, float] = {}
        """When the request that a connection waits for has to be there."""
        self._free = threading.BoundedSemaphore(CONNECTIONS_MAX)
        super().__init__(address, _Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Where the system has no descriptor left, the connection stays in the queue, to be tried in a moment."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(ACCEPT_PAUSE_S)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Refuse more connections than there is room for: each has a thread."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # the system has no thread left; the connection is closed
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def await_request(self, connection: socket.socket) -> None:
        """A request has to come within `REQUEST_S_MAX`."""
        self._due[connection] = time.monotonic() + REQUEST_S_MAX

    def has_come(self, connection: socket.socket) -> None:
        """The request is there, or will not come."""
        self._due.pop(connection, None)

    def service_actions(self) -> None:
        """Hang up on those whose request is overdue. Called every now and then by `serve_forever`."""
        now_s = time.monotonic()
        for connection in [each for each, due_s in list(self._due.items()) if due_s <= now_s]:
            self.has_come(connection)
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do not log a client that went away, or was too slow."""

    @property
    def hosts(self) -> set[str]:
        """What a request may call this server: a page that had its own name resolved to it calls it otherwise."""
        return {f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost")}


class _BadCall(Exception):
    def __init__(self, status: HTTPStatus, error: str) -> None:
        super().__init__(error)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "hailer"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = IDLE_S_MAX

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def log_message(self, format: str, *args: Any) -> None:
        """The job's terminal is not for this."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What `http.server` itself refuses, in JSON, too."""
        self.close_connection = True
        status = HTTPStatus(code)
        self._reply(status, {"error": f"{message or status.phrase}; see docs/reference/command.md for what there is"})

    def handle_one_request(self) -> None:
        self.server.await_request(self.connection)
        try:
            super().handle_one_request()
        finally:
            self.server.has_come(self.connection)

    def _serve(self) -> None:
        try:
            self._check_caller()
            body = self._body()
            self.server.has_come(self.connection)
            url = urlsplit(self.path)
            handlers = self.server.methods[self.command]
            name = url.path.strip("/")
            if name not in handlers:
                known = ", ".join(f"/{other}" for other in handlers)
                raise _BadCall(HTTPStatus.NOT_FOUND, f"there is no {self.command} /{name}; there are {known}")
            arguments = dict(parse_qsl(url.query)) if self.command == "GET" else body
            self._reply(HTTPStatus.OK, handlers[name](arguments))
        except _BadCall as refused:
            self.close_connection = True  # what else is on the connection cannot be told apart
            self._reply(refused.status, {"error": str(refused)})
        except UserError as error:
            self._reply(HTTPStatus.BAD_REQUEST, {"error": str(error)})
        except JobEnded as error:
            self._reply(HTTPStatus.GONE, {"error": str(error)})
        except WorldError as error:
            self._reply(HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(error)})
        except OSError:
            raise  # the caller is gone
        except Exception as error:  # ours; the job goes on, and whoever asked is told
            self._reply(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": f"this is a mistake in Hailer: {error!r}"})

    def _check_caller(self) -> None:
        if self.headers.get("Host", "") not in self.server.hosts:
            raise _BadCall(HTTPStatus.FORBIDDEN, "this endpoint is called by its address; use http://127.0.0.1:PORT")
        shown = self.headers.get("Authorization", "").encode("utf-8", "replace")
        if not hmac.compare_digest(shown, f"Bearer {self.server.token}".encode()):
            raise _BadCall(
                HTTPStatus.UNAUTHORIZED,
                "the job's token is missing or wrong; send `Authorization: Bearer` with what .hailer/JOB/token holds",
            )

    def _body(self) -> dict[str, Any]:
        if self.command == "GET":
            return {}
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit():
            raise _BadCall(HTTPStatus.LENGTH_REQUIRED, "send a Content-Length and a JSON object")
        if int(length) > BODY_BYTES_MAX:
            raise _BadCall(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {BODY_BYTES_MAX} bytes")
        try:
            body = json.loads(self.rfile.read(int(length)) or b"{}")
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            raise _BadCall(HTTPStatus.BAD_REQUEST, "the body is not a JSON object")
        return body

    def _reply(self, status: HTTPStatus, answer: Any) -> None:
        content = json.dumps(to_json(answer)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)
