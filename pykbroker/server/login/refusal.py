"""The end of a connection whose client has not logged in, or whose session has ended."""

from __future__ import annotations

from pykbroker.server.ending import ConnectionEnding
from pykbroker.server.handler import CloseConnection
from wire.declare import Response

USER_CHARACTERS_MAX = 64
"""The characters of a claimed user name that are logged."""


class LoginRefused(CloseConnection):
    """The end of a connection, after the response `answer` if there is one.

    `reason` is one of a few texts, since a log line is written once a minute for each host and reason. `user` is the
    name that the client claims.
    """

    def __init__(
        self,
        reason: str,
        answer: Response | None = None,
        ending: ConnectionEnding = ConnectionEnding.FAILED_LOGIN,
        user: str = "",
    ) -> None:
        super().__init__(reason, answer, ending)
        self.user = user

    @property
    def detail(self) -> str:
        """Return the user for the log line, or an empty text."""
        return f" (user {self.user[:USER_CHARACTERS_MAX]!r})" if self.user else ""
