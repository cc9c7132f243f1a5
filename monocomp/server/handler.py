"""HTTP for one machine: who may ask, what there is, and how much.

The server listens on the loopback interface alone. Names that lead there from elsewhere (DNS
rebinding) and pages of other sites are refused; paths are looked up in a table, never in a folder.
"""

from __future__ import annotations

import json
import os
import threading
from dataclasses import asdict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from monocomp import library
from monocomp.errors import MonocompError
from monocomp.language.mistakes import MAX_BYTES
from monocomp.server.answers import Request
from monocomp.server.compiler import Compiler
from monocomp.server.page import ASSETS, PAGE

HOST, PORT = "127.0.0.1", 8642
_HOSTS = (HOST, "localhost")
_MOST = 8 * MAX_BYTES  # bytes of a request: signs of a program take up to six as JSON
_AT_ONCE = 16  # requests that are read or wait; a page has one that it still wants
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; "
    "style-src 'self' 'unsafe-inline'; img-src data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class Server(ThreadingHTTPServer):
    """A server on this machine's own address.

    Args:
        port: the first to try; 0 for any that is free.
        compiler: what answers.
        tries: how many ports to try.

    Raises:
        OSError: none of them is free.
    """

    daemon_threads = True
    allow_reuse_address = os.name == "posix"  # elsewhere two servers would share a port
    compiler: Compiler | None = None

    def __init__(self, port: int = PORT, compiler: Compiler | None = None, tries: int = 20) -> None:
        last = min(port + tries, 2**16) - 1
        for number in range(port, last + 1):
            try:
                super().__init__((HOST, number), Handler)
                break
            except OSError:
                if number == last:
                    raise
        self.compiler = compiler or Compiler()
        self.room = threading.BoundedSemaphore(_AT_ONCE)

    @property
    def address(self) -> str:
        """Return the address for a browser."""
        return f"http://{HOST}:{self.server_port}/"

    def server_close(self) -> None:
        """Stop listening, and compiling."""
        super().server_close()
        if self.compiler is not None:
            self.compiler.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print no message: readers may leave at any time."""


class Handler(BaseHTTPRequestHandler):
    """Answers one reader."""

    server: Server
    server_version, sys_version = "monocomp", ""
    protocol_version = "HTTP/1.1"
    timeout = 20.0  # seconds without a byte

    def do_GET(self) -> None:
        """Send the page, what belongs to it, and programs of the library."""
        if not self._is_ours():
            return
        path = urlsplit(self.path).path
        name = path.removeprefix("/library/")
        if path == "/":
            self._send("text/html", PAGE)
        elif path in ASSETS:
            self._send(*ASSETS[path])
        elif path == "/library":
            self._send_json([{"name": n, "about": library.about(n)} for n in library.names()])
        elif path != name and name in library.names():
            self._send("text/plain", library.load(name))
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")

    def do_POST(self) -> None:
        """Compile a program."""
        if not self._is_ours():
            return
        if self.path != "/compile":
            return self._refuse(HTTPStatus.NOT_FOUND, "programs are sent to /compile")
        kind = self.headers.get_content_type()
        if kind != "application/json":  # which pages of other sites cannot send unasked
            return self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a request is JSON")
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            return self._refuse(HTTPStatus.LENGTH_REQUIRED, "a request has a length")
        if len(length) > 9 or int(length) > _MOST:
            return self._refuse(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a request has at most {_MOST} bytes"
            )
        if not self.server.room.acquire(blocking=False):
            return self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests at once")
        try:
            self._compile(self.rfile.read(int(length)))
        finally:
            self.server.room.release()

    def _compile(self, body: bytes) -> None:
        try:
            request = Request.read(json.loads(body))
        except (ValueError, RecursionError):
            return self._refuse(HTTPStatus.BAD_REQUEST, "this is no JSON")
        except MonocompError as error:
            return self._refuse(HTTPStatus.BAD_REQUEST, error.described())
        assert self.server.compiler is not None  # it listens
        answer = self.server.compiler.answer(request)
        if answer is None:
            return self._refuse(HTTPStatus.CONFLICT, "a newer request came")
        self._send_json(asdict(answer))

    def _is_ours(self) -> bool:
        """True if a request names this machine, and comes from one of our pages or from none. Any
        other is refused."""
        ours = {f"{host}:{self.server.server_port}" for host in _HOSTS}
        origin = self.headers.get("Origin")
        if self.headers.get("Host") in ours and origin in (None, *(f"http://{o}" for o in ours)):
            return True
        self._refuse(HTTPStatus.FORBIDDEN, "this server is for this machine")
        return False

    def _send_json(self, data: object) -> None:
        self._send("application/json", json.dumps(data))

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        self.close_connection = True  # what was sent has not been read
        self._send("application/json", json.dumps({"error": message}), status)

    def _send(self, kind: str, text: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        data = text.encode()
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the terminal belongs to whoever started the server."""
