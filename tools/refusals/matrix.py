"""The answers of a broker to every principal for every version of every API, as lines of text.

A principal has no right, a single one, or a few, each on the resources whose names `GRANTED` has. A super user may do
everything. ANONYMOUS, who is a client of a listener without a log-in, has no right.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Self

import msgspec

from pykbroker.core.security.operation import ResourceType
from pykbroker.core.security.rights import (
    CREATE_IN_CLUSTER,
    CREATE_TOPIC,
    DELETE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_TOPIC,
    DESCRIBE_TOPIC_CONFIGS,
    READ_GROUP,
    READ_TOPIC,
    RIGHTS,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
    Need,
)
from tools.refusals.requests import (
    DOOMED,
    KEPT,
    NEW,
    NO_OPEN,
    NO_SHUT,
    OPEN,
    SHUT,
    WITHOUT_ACKS,
    api_of,
    request,
    requests,
    versions_of,
)
from wire.apis import APIS
from wire.declare import Request
from wire.frame import decode_response, encode_request
from wire.messages.api_versions import ApiVersionsRequest
from wire.messages.create_acls import AclCreation, CreateAclsRequest
from wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from wire.messages.find_coordinator import CoordinatorType, FindCoordinatorRequest
from wire.messages.init_producer_id import InitProducerIdRequest
from wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from wire.messages.sasl_authenticate import SaslAuthenticateRequest
from wire.messages.sasl_handshake import SaslHandshakeRequest
from wire.schema import fields_of

PATIENCE_S = 5
PASSWORD = "secret"
SUPER, ANONYMOUS, NOBODY = "super", "ANONYMOUS", "nobody"
OTHERS = "others"
GRANTED = (OPEN, NO_OPEN, DOOMED, NEW)
TOPICS = (OPEN, SHUT, DOOMED, KEPT)
SOME = {
    "describe-and-create": (DESCRIBE_TOPIC, CREATE_TOPIC),
    "describe-and-create-in-cluster": (DESCRIBE_TOPIC, CREATE_IN_CLUSTER),
    "create-and-describe-configs": (CREATE_TOPIC, DESCRIBE_TOPIC_CONFIGS),
    "describe-and-delete": (DESCRIBE_TOPIC, DELETE_TOPIC),
    "consumer": (READ_GROUP, READ_TOPIC),
    "producer": (WRITE_TRANSACTIONAL_ID, WRITE_TOPIC),
    "copier": (WRITE_TRANSACTIONAL_ID, READ_GROUP, READ_TOPIC, WRITE_TOPIC),
    "describer": (DESCRIBE_CLUSTER, DESCRIBE_TOPIC),
}
"""Principals with several rights, for answers that depend on more than one."""
CHANGING = "DELETE_TOPICS"
"""The cases whose requests change what the next principal is answered."""
LATER = {3, 5, 6, 14, 15, 16}
"""The error codes of a partition or a coordinator that is not ready."""
NOT_SHOWN = {"api_keys", "supported_features", "finalized_features", "configs", "nodes"}
"""The lists of a response that differ from broker to broker."""
INSIDE = "Request Request("
REFUSED = "Cluster authorization failed."
"""The message of a refused request, and the begin of that of Kafka's controller, which quotes addresses and buffers."""
IDENTITIES = ("name", "topic", "topic_name", "group_id", "key", "transactional_id", "resource_name", "user")


def principals() -> dict[str, tuple[Need, ...]]:
    """Return the rights of each principal that has some, by name."""
    single = {
        f"{need.operation.name}-{need.resource.name}".lower().replace("_", "-"): (need,)
        for rights in RIGHTS.values()
        for right in rights
        for need in right.needs
    }
    return {**dict(sorted(single.items())), **SOME}


def users() -> list[str]:
    """Return the names of all principals that log in."""
    return [NOBODY, *principals(), SUPER]


class Client:
    """A connection of a principal, which begins anew after the broker has closed it.

    Methods raise ConnectionError if the broker closes the connection, and TimeoutError if it is silent.
    """

    def __init__(self, listeners: dict[str, str], user: str) -> None:
        self._listeners, self._user = listeners, user
        self._socket: socket.socket | None = None

    def call(self, asked: Request[Any], version: int) -> Any:
        """Return the response to a request."""
        self.send(encode_request(asked, version, 1, "matrix"))
        return decode_response(APIS[asked.key].response, version, self.frame())[1]

    def send(self, frame: bytes) -> None:
        if self._socket is None:
            self._connect()
        assert self._socket is not None
        self._socket.sendall(frame)

    def frame(self) -> bytes:
        """Return the next response without its length."""
        try:
            return self._exactly(int.from_bytes(self._exactly(4), "big"))
        except (ConnectionError, TimeoutError):
            self.close()
            raise

    def close(self) -> None:
        if self._socket is not None:
            self._stream.close()
            self._socket.close()
            self._socket = None

    def _connect(self) -> None:
        host, _, port = self._listeners["PLAINTEXT" if self._user == ANONYMOUS else "CLIENTS"].rpartition(":")
        self._socket = socket.create_connection((host, int(port)), PATIENCE_S)
        self._stream = self._socket.makefile("rb")
        if self._user != ANONYMOUS:
            self.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            token = f"\0{self._user}\0{PASSWORD}".encode()
            assert self.call(SaslAuthenticateRequest(auth_bytes=token), 2).error_code == 0

    def _exactly(self, size: int) -> bytes:
        data = self._stream.read(size)
        if len(data) < size:
            raise ConnectionError("closed")
        return data


class Matrix:
    """A broker with the resources and ACLs that the requests need, and its answers.

    `listeners` has the addresses of the listeners PLAINTEXT and CLIENTS, which has PLAIN, with `PASSWORD` for all.
    With `one_by_one`, no two clients ask at the same time: Kafka verifies one transaction of a producer at a time.
    """

    def __init__(self, listeners: dict[str, str], *, one_by_one: bool = False) -> None:
        self._one_by_one = one_by_one
        self._clients = {user: Client(listeners, user) for user in (*users(), ANONYMOUS)}
        self._super = self._clients[SUPER]
        self.ids = {NO_OPEN: b"n" * 16, NO_SHUT: b"m" * 16}

    def __enter__(self) -> Self:
        acls = [acl for user, needs in principals().items() for need in needs for acl in _acls(user, need)]
        self._super.call(CreateAclsRequest(acls), 3)
        self._create(TOPICS)
        for kind in (CoordinatorType.GROUP, CoordinatorType.TRANSACTION):
            self._until_ready(FindCoordinatorRequest(key_type=kind, coordinator_keys=[OPEN]), 4)
        for name in (OPEN, SHUT):
            self._until_ready(InitProducerIdRequest(name, 60_000), 5)
            topics = [OffsetCommitRequestTopic(OPEN, partitions=[OffsetCommitRequestPartition(0, 1)])]
            self._until_ready(OffsetCommitRequest(name, topics=topics), 9)
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients.values():
            client.close()

    def _until_ready(self, asked: Request[Any], version: int) -> None:
        """Repeat a request until its answer has none of the errors `LATER`."""
        give_up = time.monotonic() + PATIENCE_S
        while found := codes(self._super.call(asked, version)) & LATER:
            if time.monotonic() > give_up:
                raise TimeoutError(f"{type(asked).__name__}: {found} for {PATIENCE_S} s")

    def _create(self, names: tuple[str, ...]) -> None:
        """Create topics, unless they exist, and wait until they are served."""
        self._super.call(CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names], 9000), 7)
        for name in names:
            served = ListOffsetsRequest(topics=[ListOffsetsTopic(name, [ListOffsetsPartition(0, -1, -1)])])
            self._until_ready(served, 5)
        found = self._super.call(MetadataRequest([MetadataRequestTopic(name=name) for name in names]), 10)
        self.ids |= {topic.name: topic.topic_id for topic in found.topics}

    def lines(self) -> Iterator[str]:
        """Yield a line for each answer to a case: the case, its versions, the principals, and the answer."""
        for case in requests(self.ids):
            tables = [(version, self.answers(case, version)) for version in versions_of(case)]
            for table, same in groupby(tables, key=lambda each: each[1]):
                versions = [version for version, _ in same]
                for who, answer in table.items():
                    yield f"{case} | {versions[0]}-{versions[-1]} | {who} | {answer}"

    def answers(self, case: str, version: int) -> dict[str, str]:
        """Return the answer to each principal. Principals with the same answer share an entry, and `OTHERS` is the
        most frequent one.
        """
        found: dict[str, list[str]] = {}
        shown: dict[bytes, str] = {}
        changes = case.startswith(CHANGING)
        for users in ([user] for user in self._clients) if changes or self._one_by_one else (list(self._clients),):
            frame = self._frame(case, version)
            for user in users:
                self._clients[user].send(frame)
            for user in users:
                answer = self._answer(self._clients[user], case, version, shown)
                found.setdefault(answer, []).append(user)
            if changes and ":0" in answer:
                self._create((DOOMED, KEPT))
        most = max(found, key=lambda answer: len(found[answer]))
        return {OTHERS if answer == most else " ".join(who): answer for answer, who in sorted(found.items())}

    def _answer(self, client: Client, case: str, version: int, shown: dict[bytes, str]) -> str:
        """Return what a client sees of its next response. `shown` has the text of each response so far."""
        try:
            response = client.frame()
        except ConnectionError:
            return "closed"
        except TimeoutError:
            return "no answer"
        if response not in shown:
            shown[response] = self._shown(case, version, response)
        return shown[response]

    def _frame(self, case: str, version: int) -> bytes:
        """Return the request of a case. One without a response is followed by another, whose response shows its end."""
        frame = encode_request(request(case, version, requests(self.ids)[case]), version, 1, "matrix")
        return frame + encode_request(ApiVersionsRequest(), 0, 1, "matrix") if case == WITHOUT_ACKS else frame

    def _shown(self, case: str, version: int, response: bytes) -> str:
        if case == WITHOUT_ACKS:
            return "served"
        return self.shown(decode_response(api_of(case).response, version, response)[1], version) or "nothing"

    def shown(self, part: msgspec.Struct, version: int) -> str:
        """Return what a principal can see in a response: names, errors, and the operations that it may perform.

        An empty message differs from null, which is left out.
        """
        words = []
        for field in fields_of(type(part)):
            if version not in field.versions:
                continue
            name, value = field.name, getattr(part, field.name)
            if name.endswith("error_code"):
                words.append(f":{value}")
            elif name.endswith("authorized_operations") and value != -(2**31):
                words.append(f"may {value:x}")
            elif name in IDENTITIES and value:
                words.append(value)
            elif name == "error_message" and value is not None:
                words.append(f'"{REFUSED if value.startswith(INSIDE) else value}"')
            elif name == "topic_id":
                words += [f"#{known}" for known, topic_id in self.ids.items() if topic_id == value]
            elif name == "configs" and value:
                words.append("configs")
            elif isinstance(value, list) and value and hasattr(value[0], "__struct_fields__") and name not in NOT_SHOWN:
                shown = sorted(filter(None, (self.shown(each, version) for each in value)))
                words += [f"({', '.join(shown)})"] if shown else []
        return " ".join(words)


def codes(part: Any) -> set[int]:
    """Return the error codes of a response."""
    found = {getattr(part, name) for name in part.__struct_fields__ if name.endswith("error_code")}
    for name in part.__struct_fields__:
        value = getattr(part, name)
        if isinstance(value, list):
            for each in value:
                found |= codes(each) if hasattr(each, "__struct_fields__") else set()
    return found


def _acls(user: str, need: Need) -> list[AclCreation]:
    names = ("kafka-cluster",) if need.resource is ResourceType.CLUSTER else GRANTED
    return [AclCreation(need.resource, name, 3, f"User:{user}", "*", need.operation, 3) for name in names]


def plain_users() -> str:
    """Return the value of sasl.jaas.config of the mechanism PLAIN."""
    known = " ".join(f'user_{user}="{PASSWORD}"' for user in users())
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return f'{module} required username="{SUPER}" password="{PASSWORD}" {known};'


CONFIGS = {
    "node.id": "1",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.clients.plain.sasl.jaas.config": plain_users(),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{SUPER}",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
"""The configs of a broker for a `Matrix`."""
