"""A connection to a broker. It negotiates API versions, logs in, and lets tasks wait for responses."""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import inf
from typing import TYPE_CHECKING, Any

import trio

from pykbroker.client.errors import Disconnected, Silent, UnsupportedVersion
from pykbroker.client.outgoing import OutgoingConnection
from pykbroker.client.pending_response import PendingResponse, R, do_nothing
from pykbroker.client.security import PLAINTEXT, ClientSecurity
from pykbroker.core.limits import REQUEST_BYTES_MAX
from pykbroker.core.version import VERSION
from pykbroker.world.net import Net, Peer, Pump
from wire.api import ApiKey
from wire.apis import APIS
from wire.declare import Request
from wire.error_codes import ErrorCode
from wire.messages.api_versions import ApiVersionsRequest
from wire.sentinels import NO_FEATURES_EPOCH
from wire.versions import Versions

if TYPE_CHECKING:
    from pykbroker.client.login import ClientLogins

RESPONSE_BYTES_MAX = REQUEST_BYTES_MAX
SOFTWARE_NAME = "pykbroker"

logger = logging.getLogger(__name__)


class BrokerConnection:
    """A connection that several tasks may use at the same time.

    A request whose response does not arrive in time ends the connection, as in Kafka's clients: its peer may be cut
    off, and TCP would send the next requests only at its own retransmissions, minutes apart. All requests on the
    connection fail. A caller that is cancelled leaves the connection usable, but the time limit of its request stays.
    """

    def __init__(self, outgoing: OutgoingConnection, security: ClientSecurity = PLAINTEXT) -> None:
        self.versions: dict[int, Versions] = {}
        self.features: dict[str, int] = {}
        """The cluster's finalized features with their levels, such as `transaction.version` (KIP-584)."""
        self.features_epoch = NO_FEATURES_EPOCH
        """The epoch of `features`, or -1 if the broker does not report features."""
        self.name = str(outgoing.peer)
        """The name of the broker in errors."""
        self._outgoing = outgoing
        self._logins: ClientLogins | None = None
        if security.sasl is not None:
            from pykbroker.client.login import ClientLogins  # most connections have no log-in

            self._logins = ClientLogins(outgoing, security.sasl, security, self.name)
        self._senders = trio.lowlevel.ParkingLot()
        self._on_sent: Callable[[], None] = do_nothing
        outgoing.on_sent = self._wake_senders

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return not self._outgoing.ended

    def call_when_closed(self, callback: Callable[[], None]) -> None:
        """Call `callback` once either side has closed the connection. A later call replaces the callback."""
        self._outgoing.on_closed = callback

    def call_when_sent(self, callback: Callable[[], None]) -> None:
        """Call `callback` whenever all requests are sent, if some were unsent before. A later call replaces it."""
        self._on_sent = callback

    @property
    def pending_count(self) -> int:
        """Return the number of requests without a response, including requests that their caller has abandoned."""
        return self._outgoing.pending_count

    @property
    def expires_at(self) -> float:
        """Return the time of trio's clock at which a response will be late, or inf."""
        return self._outgoing.expires_at

    @property
    def has_unsent(self) -> bool:
        """Whether the kernel has not taken all requests yet."""
        return self._outgoing.has_unsent

    async def negotiate(self, s_max: float = inf) -> None:
        """Request the broker's API versions and finalized features, and log in if the client has to.

        Raise Silent as `ask` does, and AuthenticationError if broker or client refuse the other.

        A broker that does not support the newest version of ApiVersions returns its own versions (KIP-511), and gets
        another request in a version that it supports.
        """
        request, newest = ApiVersionsRequest(SOFTWARE_NAME, VERSION), APIS[ApiKey.API_VERSIONS].accepted.last
        ends_at = trio.current_time() + s_max
        answer = await self.ask(request, newest, s_max)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            # Before KIP-511, a broker named no version in this response, and had version 0.
            theirs = [api.max_version for api in answer.api_keys if api.api_key == ApiKey.API_VERSIONS]
            older = min([*theirs, newest] if theirs else [0])
            answer = await self.ask(request, older, ends_at - trio.current_time())
        if answer.error_code:
            raise Disconnected(f"ApiVersions was answered with error {answer.error_code}")
        self.versions = {api.api_key: Versions(api.min_version, api.max_version) for api in answer.api_keys}
        self.features = {feature.name: feature.max_version_level for feature in answer.finalized_features}
        self.features_epoch = answer.finalized_features_epoch
        if self._logins is not None:
            await self._logins.first(self, ends_at - trio.current_time())

    def newest_version(self, key: int) -> int:
        """Return the newest version of an API that both sides support. UnsupportedVersion: they share no version."""
        ours, theirs = APIS[key].accepted, self.versions.get(key)
        if theirs is None or min(ours.last, theirs.last) < max(ours.first, theirs.first):
            raise UnsupportedVersion(f"the broker has no version of {ApiKey(key).name} that this client has")
        return min(ours.last, theirs.last)

    async def ask(self, request: Request[R], version: int | None = None, s_max: float = inf) -> R:
        """Send a request and return the response. Raise Disconnected if no response will come.

        Close the connection and raise Silent if there is no response within `s_max` seconds.
        """
        pending = self.ask_nowait(request, version)
        pending.expires_at = trio.current_time() + s_max
        return await self.response(pending)

    def ask_nowait(self, request: Request[R], version: int | None = None) -> PendingResponse[R]:
        """Send a request, and return the pending response. Raise Disconnected if the connection has ended."""
        self._renew_session()
        return self._outgoing.request(request, self.newest_version(request.key) if version is None else version)

    async def response(self, pending: PendingResponse[R]) -> R:
        """Wait for the response to a request of this connection. Raise Disconnected if the connection ends first.

        Close the connection if any of its requests is too late, also one whose caller is gone.
        """
        if not pending.is_done:
            arrived = trio.Event()
            pending.call_when_done(arrived.set)
            try:
                while not pending.is_done:
                    with trio.move_on_at(self._outgoing.expires_at):
                        await arrived.wait()
                        break
                    self.expire(await late_at())
            except BaseException:
                pending.abandon()
                raise
        return pending.result()

    def expire(self, now: float) -> None:
        """Close the connection if a response that was due by `now` is missing. Pending requests then raise Silent."""
        if self.expires_at <= now:
            logger.info("disconnecting from %s: a request timed out", self.name)
            self.close(Silent(f"{self.name} did not respond in time"))

    async def send(self, request: Request[Any], version: int | None = None) -> None:
        """Send a request that the broker does not answer (Produce with acks=0), and wait until the kernel takes it."""
        self.send_nowait(request, version)
        if self._outgoing.has_unsent:
            await self._senders.park()

    def send_nowait(self, request: Request[Any], version: int | None = None) -> None:
        """Send a request that the broker does not answer. Raise Disconnected if the connection has ended."""
        self._renew_session()
        self._outgoing.send(request, self.newest_version(request.key) if version is None else version)

    def close(self, error: Disconnected | None = None) -> None:
        """Close the connection at once. Waiting callers get `error`, or else an error of class Disconnected."""
        self._outgoing.close(error)

    def _renew_session(self) -> None:
        """Log in again if the session ends soon."""
        if self._logins is not None and self._logins.due_at <= trio.current_time() and self.is_open:
            self._logins.again()

    def _wake_senders(self) -> None:
        self._senders.unpark_all()
        self._on_sent()


async def late_at() -> float:
    """Return the time of trio's clock, after the pumps have read the responses that arrived until then.

    A process that was stopped, or whose event loop stood still, finds responses in its sockets.
    """
    now = trio.current_time()
    await trio.lowlevel.checkpoint()
    return now


async def open_connection(
    net: Net,
    host: str,
    port: int,
    client_id: str,
    response_bytes_max: int = RESPONSE_BYTES_MAX,
    receive_buffer_bytes: int = -1,
    security: ClientSecurity = PLAINTEXT,
) -> BrokerConnection:
    """Connect to a broker, without negotiation. Raise OSError if no connection can be opened.

    Raise AuthenticationError if TLS fails, and HandshakeEnded if the broker ends the connection before.
    """

    def outgoing(peer: Peer, pump: Pump) -> OutgoingConnection:
        return OutgoingConnection(peer, pump, client_id, response_bytes_max)

    tls = security.tls_of(host, port)
    try:
        return BrokerConnection(await net.connect(host, port, outgoing, receive_buffer_bytes, tls), security)
    except ssl.SSLError as error:
        if tls is None:
            raise
        raise tls.refusal(error) from error
    except ConnectionResetError as error:  # an attempt to connect that fails raises another error
        if tls is None:
            raise
        raise tls.ended() from error


async def connect(
    net: Net,
    host: str,
    port: int,
    client_id: str,
    response_bytes_max: int = RESPONSE_BYTES_MAX,
    security: ClientSecurity = PLAINTEXT,
) -> BrokerConnection:
    """Connect to a broker and negotiate API versions.

    Raise OSError if no connection can be opened, and Disconnected if it ends early.
    """
    connection = await open_connection(net, host, port, client_id, response_bytes_max, security=security)
    try:
        await connection.negotiate()
    except BaseException:
        connection.close()
        raise
    return connection


@asynccontextmanager
async def connected(
    net: Net, host: str, port: int, client_id: str, security: ClientSecurity = PLAINTEXT
) -> AsyncIterator[BrokerConnection]:
    """Connect to a broker, negotiate API versions, yield the connection, and close it when the block ends."""
    connection = await connect(net, host, port, client_id, security=security)
    try:
        yield connection
    finally:
        connection.close()
