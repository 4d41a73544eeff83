"""The log-in of a client on its connection by SASL, and the next one before its session ends (KIP-368).

1. The first log-in follows the negotiation of API versions, and no other request is sent before it is complete.
2. As in Java's clients, a session with a lifetime is renewed by the first request after 85 to 95 % of the lifetime,
   which waits for that. Responses to earlier requests still arrive.

Source: SaslClientAuthenticator of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from functools import partial
from math import inf
from typing import Any, Protocol

import trio

from pykbroker.client.errors import AuthenticationError, Disconnected
from pykbroker.client.outgoing import OutgoingConnection
from pykbroker.client.pending_response import PendingResponse
from pykbroker.client.security import ClientSecurity
from pykbroker.core.security.sasl.client import ClientMechanism, UntrustedBroker, reauthentication_s
from pykbroker.core.security.sasl.scram import NONCE_BITS, base36
from wire.declare import Request
from wire.error_codes import ErrorCode, error_code
from wire.messages.sasl_authenticate import SaslAuthenticateRequest
from wire.messages.sasl_handshake import SaslHandshakeRequest

HANDSHAKE_VERSION = 1
"""The version of SaslHandshake after which tokens are sent in SaslAuthenticate."""
SHARE_BITS = 16

logger = logging.getLogger(__name__)

LoginRequests = Generator[Request[Any], Any, int]
"""The requests of a log-in. It takes the response to each, and returns the lifetime of the session in ms, or 0."""


class LoginConnection(Protocol):
    """The connection on which a client logs in."""

    async def ask(self, request: Request[Any], version: int | None = None, s_max: float = inf) -> Any:
        """Send a request and return the response. Raise Disconnected if no response will come."""

    def newest_version(self, key: int) -> int:
        """Return the newest version of an API that both sides support."""


def log_in(mechanism: ClientMechanism, nonce: str) -> LoginRequests:
    """Return the requests of a log-in. They raise AuthenticationError if broker or client refuse the other."""
    chosen = yield SaslHandshakeRequest(mechanism.name)
    if chosen.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        raise AuthenticationError(
            f"the broker does not enable the SASL mechanism {mechanism.name}: it has"
            f" {', '.join(chosen.mechanisms) or 'none'}",
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        )
    if chosen.error_code:
        raise refused(chosen.error_code, "the listener takes no log-in: connect without SASL, or to another listener")
    exchange, answer = mechanism.begin(nonce), None
    token: bytes | None = exchange.first()
    while token is not None:
        answer = yield SaslAuthenticateRequest(token)
        if answer.error_code:
            raise refused(answer.error_code, answer.error_message)
        try:
            token = exchange.answer(answer.auth_bytes)
        except UntrustedBroker as error:
            raise AuthenticationError(str(error)) from None
    return 0 if answer is None else max(0, answer.session_lifetime_ms)


def refused(number: int, message: str | None) -> AuthenticationError:
    """Return the error of a log-in that the broker has answered with an error code."""
    code = error_code(number)
    return AuthenticationError(message or code.name, code)


class ClientLogins:
    """The log-ins of one connection. `name` is that of the broker in errors."""

    def __init__(
        self, outgoing: OutgoingConnection, mechanism: ClientMechanism, security: ClientSecurity, name: str
    ) -> None:
        self._outgoing, self._mechanism, self._security, self._name = outgoing, mechanism, security, name
        self._token_version = 0
        self.due_at = inf
        """The time of trio's clock from which the next request waits for another log-in."""

    async def first(self, connection: LoginConnection, s_max: float) -> None:
        """Log in within `s_max` seconds. Raise AuthenticationError, or Silent as `ask` does."""
        self._token_version = connection.newest_version(SaslAuthenticateRequest.key)
        ends_at = trio.current_time() + s_max
        steps = self._steps()
        try:
            request = next(steps)
            while True:
                answer = await connection.ask(request, self._version(request), ends_at - trio.current_time())
                request = steps.send(answer)
        except StopIteration as end:
            self._complete(end.value)
        except AuthenticationError as error:
            raise self._named(error) from None

    def again(self) -> None:
        """Begin another log-in. All requests wait until it is complete; if it fails, the connection ends."""
        self.due_at = inf
        self._outgoing.hold()
        steps = self._steps()
        self._send(steps, next(steps))

    def _send(self, steps: LoginRequests, request: Request[Any]) -> None:
        pending = self._outgoing.request_first(request, self._version(request))
        pending.call_when_done(partial(self._arrived, steps, pending))

    def _arrived(self, steps: LoginRequests, pending: PendingResponse[Any]) -> None:
        try:
            request = steps.send(pending.result())
        except StopIteration as end:
            self._complete(end.value)
            logger.debug("%s: logged in again", self._name)
            self._outgoing.release()
        except AuthenticationError as error:
            self._outgoing.close(self._named(error))
        except Disconnected:
            return  # all requests fail with this error
        else:
            self._send(steps, request)

    def _steps(self) -> LoginRequests:
        return log_in(self._mechanism, base36(self._security.random_bits(NONCE_BITS)))

    def _version(self, request: Request[Any]) -> int:
        return HANDSHAKE_VERSION if isinstance(request, SaslHandshakeRequest) else self._token_version

    def _complete(self, lifetime_ms: int) -> None:
        if lifetime_ms:
            share = self._security.random_bits(SHARE_BITS) / 2**SHARE_BITS
            self.due_at = trio.current_time() + reauthentication_s(lifetime_ms, share)

    def _named(self, error: AuthenticationError) -> AuthenticationError:
        return AuthenticationError(f"{self._name}: {error}", error.code)
