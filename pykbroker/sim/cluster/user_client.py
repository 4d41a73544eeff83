"""A simulated client that logs in to one broker by SASL, uses its session, and logs in again or rudely does not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from pykbroker.client.connection import connect
from pykbroker.client.errors import AuthenticationError
from pykbroker.client.login import HANDSHAKE_VERSION, log_in
from pykbroker.core.security.sasl.client import ClientMechanism
from pykbroker.core.security.sasl.scram import NONCE_BITS, base36
from pykbroker.sim.client import ANSWER_S, LOST, SimConnection, invalid_responses_reported
from pykbroker.sim.cluster.connection import CONNECT_S
from pykbroker.sim.cluster.user_history import UserHistory
from pykbroker.sim.stage import Stage
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.describe_groups import DescribeGroupsRequest
from wire.messages.sasl_authenticate import SaslAuthenticateRequest
from wire.messages.sasl_handshake import SaslHandshakeRequest

SESSION_S = 1.5
"""`connections.max.reauth.ms` of the brokers, in seconds."""
ASK_S = 0.2
"""The average time in seconds between two requests of a session."""
SESSIONS_MAX = 2
"""The longest time for which a client keeps a connection, in sessions."""
RUDE = 0.3
"""The chance that a client does not log in again before its session ends."""
RENEWED_MIN, RENEWED_MAX = 0.7, 1.2
"""The shares of its session after which a client logs in again: more than a second, and maybe too late."""
CLOCK_S = 0.001
"""The precision of the times of brokers and clients."""
FORBIDDEN_GROUP = "group-of-nobody"


class UserClient:
    """A client of one broker as the user `user`. `answers` counts the responses in its sessions.

    What no client should ever get, it notes in `stage.unexpected`.
    """

    def __init__(
        self,
        stage: Stage,
        node_id: int,
        user: UserHistory,
        password: str,
        mechanism: ClientMechanism,
        *,
        is_controller: bool,
    ) -> None:
        self._stage, self._node_id, self._user, self._password = stage, node_id, user, password
        self._mechanism, self._is_controller = mechanism, is_controller
        self._host = host_of_client(node_id)
        self._dice = stage.dice(f"sessions of {self._host}")
        self._connection: SimConnection
        self._ends_at = 0.0
        self.answers = 0

    @asynccontextmanager
    async def connected(self, address: tuple[str, int]) -> AsyncIterator[None]:
        """Open a connection, and close it when the block ends. Raise an error of LOST if it is lost."""
        with trio.fail_after(CONNECT_S), invalid_responses_reported():
            connection = await connect(self._stage.net(self._host), *address, self._host)
        try:
            self._connection = SimConnection(connection, self._dice)
            yield
        finally:
            connection.close()

    async def log_in(self) -> bool:
        """Log in, the first time or again, and return whether the broker accepts the password.

        Raise an error of LOST if the connection is lost.
        """
        attempt = self._user.begin(self._node_id, self._password, is_controller=self._is_controller)
        accepted = True
        try:
            await self._exchange_tokens()
        except AuthenticationError as error:
            accepted = False
            if error.code is not ErrorCode.SASL_AUTHENTICATION_FAILED:
                self._note(f"ends the log-in of {self._user.name} with {error}")
        self._ends_at = trio.current_time() + SESSION_S + CLOCK_S
        if finding := self._user.end(attempt, accepted=accepted):
            self._stage.unexpected.append(finding)
        if not accepted:
            await self.expect_end("has failed to log in")
        return accepted

    async def use_session(self, *, stays: bool) -> None:
        """Send requests until a random time, or one, and log in again meanwhile, or not. Raise an error of LOST."""
        dice, is_rude = self._dice, self._dice.random() < RUDE
        leaves_at = trio.current_time() + stays * dice.uniform(1, SESSIONS_MAX) * SESSION_S
        renews_at = self._renews_at()
        await self._ask()
        self.answers += 1
        while trio.current_time() < leaves_at:
            await trio.sleep(dice.expovariate(1 / ASK_S))
            if not is_rude and trio.current_time() >= renews_at:
                if not await self.log_in():
                    return
                renews_at = self._renews_at()
            if trio.current_time() > self._ends_at:
                await self.expect_end("has not logged in again")
                return
            await self._ask()
            self.answers += 1

    async def expect_end(self, why: str) -> None:
        """Send a request that must end the connection without a response."""
        try:
            await self._ask()
        except LOST:
            return
        self._note(f"answers {self._user.name}, who {why}")

    async def _ask(self) -> None:
        """Describe the group of this user, and one of nobody, and check that only this user's is permitted."""
        own = self._user.name
        request = DescribeGroupsRequest(groups=[own, FORBIDDEN_GROUP])
        answer = await self._connection.ask(request, self._connection.any_version(ApiKey.DESCRIBE_GROUPS))
        denied = {group.group_id: group.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED for group in answer.groups}
        if denied != {own: False, FORBIDDEN_GROUP: True}:
            self._note(f"takes {own} for somebody else: denied are {denied}")

    async def _exchange_tokens(self) -> None:
        steps = log_in(self._mechanism, base36(self._dice.getrandbits(NONCE_BITS)))
        request = next(steps)
        with trio.fail_after(ANSWER_S):
            while True:
                version = HANDSHAKE_VERSION
                if isinstance(request, SaslAuthenticateRequest):
                    version = self._connection.any_version(ApiKey.SASL_AUTHENTICATE)
                else:
                    assert isinstance(request, SaslHandshakeRequest)
                answer = await self._connection.ask(request, version)
                try:
                    request = steps.send(answer)
                except StopIteration:
                    return

    def _renews_at(self) -> float:
        return trio.current_time() + self._dice.uniform(RENEWED_MIN, RENEWED_MAX) * SESSION_S

    def _note(self, what: str) -> None:
        self._stage.unexpected.append(f"broker {self._node_id} {what}")


def host_of_client(node_id: int) -> str:
    """Return the name of the host of the client that logs in to one broker."""
    return f"user-client-{node_id}"
