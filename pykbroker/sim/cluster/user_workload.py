"""The workload of users: an operator adds users, changes their passwords and removes them, and clients log in.

Clients log in by SCRAM and by PLAIN on a listener of their own, with passwords of today, of yesterday, and wrong ones.
Under all faults, also after restarts:

- A broker that has once refused a password since a change does not accept it again, nor the reverse
  (`UserHistory`). The broker beside the controller obeys an acknowledged change at once, and every other one once the
  faults have ended.
- A connection answers nothing before its log-in, after a log-in that has failed, or after the end of its session.
- A client has the rights of the user as whom it has logged in, and no others.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial

import trio

from pykbroker.client.admin.users import upsertion
from pykbroker.core.config.java_classes import AUTHORIZER, STANDARD_AUTHORIZER
from pykbroker.core.security.sasl.client import ClientMechanism, client_mechanism
from pykbroker.core.security.sasl.plain import PLAIN
from pykbroker.core.security.sasl.scram import SHA_256
from pykbroker.core.security.sasl.settings import PLAIN_MODULE
from pykbroker.core.security.secret import Secret
from pykbroker.sim.client import LOST, SimConnection
from pykbroker.sim.cluster.acl_workload import ALLOW, GROUP, LITERAL, READ
from pykbroker.sim.cluster.brief_topic import require
from pykbroker.sim.cluster.operated import OperatedWorkload
from pykbroker.sim.cluster.user_client import FORBIDDEN_GROUP, SESSION_S, UserClient, host_of_client
from pykbroker.sim.cluster.user_history import NO_PASSWORD, UserHistory
from pykbroker.sim.stage import Stage
from pykbroker.sim.workload import PROGRESS_S_MAX
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from wire.messages.create_acls import AclCreation, CreateAclsRequest

LISTENER, PORT = "USERS", 9094
LISTENER_OF_BROKERS, PORT_OF_BROKERS = "BROKERS", 9095
LOGIN_OF_BROKERS = f'{PLAIN_MODULE} required username="broker" password="of brokers" user_broker="of brokers";'
CONFIGS: Mapping[str, str] = {
    AUTHORIZER: STANDARD_AUTHORIZER,
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:broker",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": PLAIN,
    "sasl.mechanism.controller.protocol": PLAIN,
    "listener.name.brokers.plain.sasl.jaas.config": LOGIN_OF_BROKERS,
    "listener.name.controller.plain.sasl.jaas.config": LOGIN_OF_BROKERS,
    "sasl.enabled.mechanisms": f"{SHA_256.mechanism},{PLAIN}",
    "listener.name.users.plain.sasl.jaas.config": f"{PLAIN_MODULE} required scram_users=true;",
    "connections.max.reauth.ms": str(int(SESSION_S * 1000)),
    "metadata.log.max.record.bytes.between.snapshots": "500",
}
"""The configs of all brokers. They log in to each other, and take many snapshots, so that restarts begin with one."""
SALT = b"of the simulation"
NAMES_MAX = 2
"""The number of users whom the operator still changes."""
REMOVED, OLD, WRONG, BY_PLAIN, HURRIED, STAYS = 0.5, 0.4, 0.05, 0.3, 0.05, 0.2
"""The chances that a change of a user removes it, and that a client logs in with an earlier password, with one that
never was, by PLAIN, and not at all before its first request, and that it stays for more than one request."""
CHANGE_S, LOGIN_S = 0.2, 0.05
"""The average times in seconds between two changes, and between two connections of a client."""


class UserWorkload(OperatedWorkload):
    """The workload."""

    operator = "user-operator"
    host_of_client = staticmethod(host_of_client)

    def __init__(self, stage: Stage, brokers: Mapping[int, tuple[str, int]]) -> None:
        super().__init__(stage, brokers)
        self._users: list[UserHistory] = []
        self._mechanisms: dict[tuple[str, str, str], ClientMechanism] = {}
        self._upsertions: dict[tuple[str, str], ScramCredentialUpsertion] = {}

    async def settle(self) -> list[str]:
        """Finish the last change, and wait until each broker obeys all of them."""
        self._stopped = True
        disobeyed = dict.fromkeys(self._brokers, "the last change")
        with trio.move_on_after(PROGRESS_S_MAX):
            await self._idle.wait()
            async with trio.open_nursery() as nursery:
                for node_id in self._brokers:
                    nursery.start_soon(self._until_obeyed, node_id, disobeyed)
        return [f"broker {node_id} does not obey {what}" for node_id, what in disobeyed.items()]

    # ---- the operator

    async def _operate(self) -> None:
        """Change one user after another. A change is sent until it is acknowledged."""
        while not self._stopped:
            await trio.sleep(self._dice.expovariate(1 / CHANGE_S))
            open_users = [user for user in self._users if not user.is_final]
            if len(open_users) < NAMES_MAX:
                user = UserHistory(f"user-{len(self._users)}")
                await self._operator.until_answered(partial(reserve_groups, user=user.name))
                self._users.append(user)
            else:
                user = self._dice.choice(open_users)
            removes = user.password is not NO_PASSWORD and self._dice.random() < REMOVED
            user.change(NO_PASSWORD if removes else f"password-{len(user.states)}")
            await self._operator.until_answered(partial(self._change, user))
            user.acknowledge()
            self.acknowledged += 1
        self._idle.set()

    async def _change(self, user: UserHistory, connection: SimConnection) -> None:
        """Send the newest change of a user. Raise Again for an error that may pass."""
        user.requests += 1
        if user.password is NO_PASSWORD:
            request = AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(user.name, SHA_256.number)])
        else:
            request = AlterUserScramCredentialsRequest(upsertions=[self._upsertion(user.name, user.password)])
        answer = await connection.ask(request, connection.any_version(ApiKey.ALTER_USER_SCRAM_CREDENTIALS))
        require(answer.results[0].error_code, ErrorCode.RESOURCE_NOT_FOUND)

    def _upsertion(self, user: str, password: str) -> ScramCredentialUpsertion:
        key = user, password
        if key not in self._upsertions:
            self._upsertions[key] = upsertion(user, Secret(password), SHA_256, SALT)
        return self._upsertions[key]

    # ---- the clients

    async def _watch(self, node_id: int) -> None:
        dice = self._stage.dice(host_of_client(node_id))
        while True:
            await trio.sleep(dice.expovariate(1 / LOGIN_S))
            if not self._users:
                continue
            user = dice.choice(self._users)
            password = user.password
            if password is NO_PASSWORD or dice.random() < OLD:
                password = dice.choice([each for each in user.states if each is not NO_PASSWORD])
            if dice.random() < WRONG:
                password = "wrong"
            client = self._client(node_id, user, password, PLAIN if dice.random() < BY_PLAIN else SHA_256.mechanism)
            with suppress(*LOST):
                async with client.connected(self._brokers[node_id]):
                    if dice.random() < HURRIED:
                        await client.expect_end("has not logged in")
                    elif await client.log_in():
                        await client.use_session(stays=dice.random() < STAYS)
            self.read += client.answers

    async def _until_obeyed(self, node_id: int, disobeyed: dict[int, str]) -> None:
        """Log in as each user with its last two passwords until the broker accepts the newest one only."""
        for user in self._users:
            for password in user.states[-2:]:
                disobeyed[node_id] = f"the last change of {user.name}"
                if password is not NO_PASSWORD:
                    await self._until_judged(node_id, user, password)
        del disobeyed[node_id]

    async def _until_judged(self, node_id: int, user: UserHistory, password: str) -> None:
        """Log in until the broker accepts the password if it is the newest one, or else refuses it."""
        while True:
            await trio.sleep(LOGIN_S)
            with suppress(*LOST):
                client = self._client(node_id, user, password, SHA_256.mechanism)
                async with client.connected(self._brokers[node_id]):
                    if await client.log_in() is user.is_newest(password):
                        return

    def _client(self, node_id: int, user: UserHistory, password: str, mechanism: str) -> UserClient:
        """Return a client. The mechanism of a password is always the same one, which keeps the salted password."""
        key = mechanism, user.name, password
        if key not in self._mechanisms:
            self._mechanisms[key] = client_mechanism(mechanism, user.name, Secret(password))
        is_controller = node_id == min(self._brokers)
        return UserClient(self._stage, node_id, user, password, self._mechanisms[key], is_controller=is_controller)


async def reserve_groups(connection: SimConnection, user: str) -> None:
    """Leave the group with the name of a user to that user, and another group to nobody. Raise Again as `require`."""
    acls = [AclCreation(GROUP, group, LITERAL, f"User:{group}", "*", READ, ALLOW) for group in (user, FORBIDDEN_GROUP)]
    answer = await connection.ask(CreateAclsRequest(acls), connection.any_version(ApiKey.CREATE_ACLS))
    for result in answer.results:
        require(result.error_code)
