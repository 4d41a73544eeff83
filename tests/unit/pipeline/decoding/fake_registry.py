"""A schema registry that answers over a real socket, and that a test may make fail."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class FakeRegistry:
    """A registry with some schemas. `failures` are the HTTP codes of the next answers, and `requests` its log."""

    def __init__(self) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.failures: list[int] = []
        self.requests: list[tuple[str, str | None]] = []
        self.body: bytes | None = None
        """The body of the next answers, in place of that of a registry."""
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.requests.append((self.path, self.headers.get("Authorization")))
                code, body = registry.answer(self.path)
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.address}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def add(self, schema_id: int, schema: Any, **more: Any) -> None:
        """Register a schema."""
        self.schemas[schema_id] = {"schema": json.dumps(schema), **more}

    def answer(self, path: str) -> tuple[int, bytes]:
        """Return the code and the body for a request."""
        if self.failures:
            return self.failures.pop(0), b"<html>no JSON</html>"
        if self.body is not None:
            return 200, self.body
        found = self.schemas.get(int(path.rpartition("/")[2])) if path.startswith("/schemas/ids/") else None
        if found is None:
            return 404, b'{"error_code":40403,"message":"Schema not found"}'
        return 200, json.dumps(found).encode()

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def fake_registry() -> Iterator[FakeRegistry]:
    """Yield a registry that runs."""
    registry = FakeRegistry()
    try:
        yield registry
    finally:
        registry.close()
