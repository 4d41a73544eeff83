"""The end of a connection whose client has not logged in, or whose session has ended."""

from __future__ import annotations

from pykbroker.server.ending import ConnectionEnding
from pykbroker.server.handler import CloseConnection
from wire.declare import Response


class LoginRefused(CloseConnection):
    """The end of a connection, after the response `answer` if there is one.

    `reason` is one of a few texts, since a log line is written once a minute for each host and reason. `detail` is any
    text, which ends the line.
    """

    def __init__(
        self,
        reason: str,
        answer: Response | None = None,
        ending: ConnectionEnding = ConnectionEnding.FAILED_LOGIN,
        detail: str = "",
    ) -> None:
        super().__init__(reason, answer, ending)
        self.detail = detail
