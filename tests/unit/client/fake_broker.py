"""A fake broker at the other end of an outgoing connection: it reads whole requests and sends what a test passes."""

from __future__ import annotations

from typing import Any

from pykbroker.client.outgoing import OutgoingConnection
from pykbroker.world.net import Peer
from wire.declare import Response
from wire.frame import decode_request, encode_response
from wire.header import RequestHeader

PEER = Peer("127.0.0.1", 9092, "127.0.0.1", 40_000)


class FakeBroker:
    """A fake broker that matches `world.net.Pump` and exchanges bytes with `connection` without a socket."""

    def __init__(self, response_bytes_max: int = 1 << 20) -> None:
        self.connection = OutgoingConnection(PEER, self, "test", response_bytes_max)
        self.is_closed = False
        self._received = b""

    def end_when_silent(self) -> None:
        pass

    def serve_last(self, *, last: bool) -> None:
        pass

    def flush(self) -> None:
        self._received += b"".join(self.connection.out)  # type: ignore[arg-type]
        self.connection.out.clear()

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.connection.closed()

    def requests(self) -> list[tuple[RequestHeader, Any]]:
        """Return the requests that arrived since the previous call."""
        found = []
        while self._received:
            end = 4 + int.from_bytes(self._received[:4], "big")
            found.append(decode_request(self._received[4:end]))
            self._received = self._received[end:]
        return found

    def send(self, data: bytes) -> None:
        """Pass bytes to the connection as a socket would, and close the connection if the bytes ended it."""
        while data and not self.connection.ended:
            room = self.connection.room
            if room is None:
                self.connection.received(data)
                data = b""
            else:
                size = min(len(room), len(data))
                room[:size] = data[:size]
                del room
                self.connection.filled(size)
                data = data[size:]
        if self.connection.ended:
            self.close()

    def answer(self, header: RequestHeader, response: Response) -> None:
        self.send(encode_response(response, header.version, header.correlation_id))
