"""The states of a log-in on a connection, and the table of what a connection does with each kind of request.

A connection begins in INITIAL, and serves all APIs once the log-in is COMPLETE. A log-in that has FAILED answers
nothing more. A client whose session has a lifetime logs in again on the same connection: that log-in begins in
REAUTHENTICATION with a SaslHandshake, and must lead to the same principal by the same mechanism (KIP-368).

Source: KIP-43, KIP-152, KIP-368 and SaslServerAuthenticator of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import TypeVar

import msgspec

from pykbroker.core.security.sasl.mechanism import AuthenticationFailed, Challenge, Computation, Exchange, Mechanism

A = TypeVar("A", bound=Challenge | Computation)

REAUTHENTICATION_NS_MIN = 1_000_000_000
"""The minimum time between the beginnings of two re-authentications of a connection."""
MS_NS = 1_000_000


class LoginState(Enum):
    """The state of a log-in."""

    INITIAL = auto()
    HANDSHAKE = auto()
    """ApiVersions was answered, and may not be asked again."""
    REAUTHENTICATION = auto()
    AUTHENTICATE = auto()
    """The mechanism is chosen, and takes the client's tokens."""
    OTHER_MECHANISM = auto()
    """The client has begun to authenticate again by another mechanism. It learns that at its next request."""
    COMPLETE = auto()
    FAILED = auto()


class RequestKind(Enum):
    """The kinds of requests that a log-in distinguishes."""

    VERSIONS = auto()
    HANDSHAKE = auto()
    TOKEN = auto()
    OTHER = auto()


class Action(Enum):
    """The ways in which a connection treats a request."""

    ANSWER = auto()
    """The handler of this log-in answers, or that of the listener if the log-in is complete."""
    REFUSE = auto()
    """The error response of the API, with ILLEGAL_SASL_STATE, follows after the delay. Then the connection ends."""
    REFUSE_ONLY = auto()
    """The error response has ILLEGAL_SASL_STATE, and the connection lives."""
    END_LATE = auto()
    """The connection ends after the delay, without a response."""
    END = auto()
    """The connection ends at once, without a response, and the request is not parsed."""


def row(versions: Action, handshake: Action, token: Action, other: Action) -> dict[RequestKind, Action]:
    """Return the actions by request."""
    return dict(zip(RequestKind, (versions, handshake, token, other), strict=True))


ANSWER, REFUSE, END, LATE, ONLY = Action.ANSWER, Action.REFUSE, Action.END, Action.END_LATE, Action.REFUSE_ONLY
# fmt: off
ACTIONS: dict[LoginState, dict[RequestKind, Action]] = {
    #                             ApiVersions  SaslHandshake  SaslAuthenticate  other
    LoginState.INITIAL:          row(  ANSWER,      ANSWER,        END,              END),
    LoginState.HANDSHAKE:        row(  END,         ANSWER,        END,              END),
    LoginState.REAUTHENTICATION: row(  END,         ANSWER,        END,              END),
    LoginState.AUTHENTICATE:     row(  REFUSE,      REFUSE,        ANSWER,           REFUSE),
    LoginState.OTHER_MECHANISM:  row(  LATE,        LATE,          LATE,             LATE),
    LoginState.COMPLETE:         row(  ANSWER,      ONLY,          ONLY,             ANSWER),
    LoginState.FAILED:           row(  END,         END,           END,              END),
}
# fmt: on


class Identity(msgspec.Struct, frozen=True):
    """A client that has logged in: its user, and the mechanism of its log-in."""

    user: str
    mechanism: str


class Login:
    """One log-in. `reauth_ms` is `connections.max.reauth.ms` by mechanism; 0 or less means that sessions have no end.

    `before` is the client if it authenticates again. `begun_at` is the time of the log-in's beginning; times are in ns
    of a monotonic clock.
    """

    __slots__ = (
        "_exchange",
        "_mechanisms",
        "_reauth_ms",
        "before",
        "begun_at",
        "expires_at",
        "identity",
        "lifetime_ms",
        "mechanism",
        "state",
        "takes_raw_tokens",
    )

    def __init__(
        self,
        mechanisms: Mapping[str, Mechanism],
        reauth_ms: Mapping[str, int],
        begun_at: int,
        before: Identity | None = None,
    ) -> None:
        self._mechanisms, self._reauth_ms, self.begun_at, self.before = mechanisms, reauth_ms, begun_at, before
        self.state = LoginState.INITIAL if before is None else LoginState.REAUTHENTICATION
        self.mechanism = ""
        self.takes_raw_tokens = False
        """Whether tokens follow without request headers, as after SaslHandshake version 0."""
        self.identity: Identity | None = None
        """The client, once the log-in is complete."""
        self.lifetime_ms = 0
        """The lifetime of the session in ms, or 0 if it has none or has ended already."""
        self.expires_at: int | None = None
        """The time at which the session ends, or None if it has no lifetime."""
        self._exchange: Exchange | None = None

    def action(self, request: RequestKind) -> Action:
        """Return what the connection does with a request of this kind."""
        return ACTIONS[self.state][request]

    def versions_answered(self, *, is_error: bool) -> None:
        """Note that ApiVersions is answered. After an error the client may ask again."""
        if not is_error:
            self.state = LoginState.HANDSHAKE

    def handshake(self, mechanism: str, version: int, nonce: str) -> None:
        """Choose the mechanism. Raise AuthenticationFailed if it is not enabled."""
        if mechanism not in self._mechanisms:
            self.state = LoginState.FAILED
            enabled = " or ".join(self._mechanisms)
            raise AuthenticationFailed(
                f"the client asks for a SASL mechanism that is not enabled: set sasl.mechanism={enabled} in the client"
            )
        self.mechanism, self.takes_raw_tokens = mechanism, version == 0
        if self.before is not None and self.before.mechanism != mechanism:
            self.state = LoginState.OTHER_MECHANISM
            return
        self.state = LoginState.AUTHENTICATE
        self._exchange = self._mechanisms[mechanism].begin(nonce)

    def token(self, token: bytes, now: int) -> Challenge | Computation:
        """Return the answer to a token, which may complete the log-in. Raise AuthenticationFailed.

        The result of a computation goes to `computed`, before the next token.
        """
        exchange = self._exchange
        assert exchange is not None
        return self._answered(lambda: exchange.answer(token), now)

    def computed(self, computation: Computation, result: bytes, now: int) -> Challenge:
        """Return the answer of a computation, which may complete the log-in. Raise AuthenticationFailed."""
        return self._answered(lambda: computation.answer(result), now)

    def _answered(self, answered: Callable[[], A], now: int) -> A:
        try:
            answer = answered()
            if isinstance(answer, Challenge) and answer.user is not None:
                self._complete(Identity(answer.user, self.mechanism), answer.lifetime_ms, now)
        except BaseException:
            self.fail()
            raise
        return answer

    def fail(self) -> None:
        """End the log-in without success."""
        self.state, self._exchange = LoginState.FAILED, None

    def message(self, error: AuthenticationFailed) -> str:
        """Return what the client is told about a failed log-in."""
        if error.message is not None:
            return error.message
        act = "authentication" if self.before is None else "re-authentication"
        return f"Authentication failed during {act} due to invalid credentials with SASL mechanism {self.mechanism}"

    def may_begin_again(self, now: int) -> bool:
        """Whether the client may authenticate again: its session has a lifetime, and the last time is long enough ago.

        The first re-authentication may begin at any time.
        """
        if self.expires_at is None:
            return False
        return self.before is None or now - self.begun_at >= REAUTHENTICATION_NS_MIN

    def again(self, now: int) -> Login:
        """Return the log-in of a client that authenticates again."""
        assert self.identity is not None
        return Login(self._mechanisms, self._reauth_ms, now, self.identity)

    def _complete(self, identity: Identity, credential_ms: int | None, now: int) -> None:
        before = self.before
        if before is not None and before.user != identity.user:
            message = f"Cannot change principals during re-authentication from User.{before.user}: User.{identity.user}"
            raise AuthenticationFailed("the client changes its user", message=message, user=identity.user)
        reauth_ms = self._reauth_ms.get(identity.mechanism, 0)
        limits = [ms for ms in (credential_ms, reauth_ms if reauth_ms > 0 else None) if ms is not None]
        if limits:
            self.lifetime_ms = max(0, min(limits))
            self.expires_at = now + self.lifetime_ms * MS_NS
        self.identity, self.state, self._exchange = identity, LoginState.COMPLETE, None
