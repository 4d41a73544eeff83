"""Tests of nodes that know each other by passwords over TLS, with an authorizer, and of strangers among them."""

from __future__ import annotations

import hashlib
import logging
import ssl
from pathlib import Path
from typing import Any

import pytest
import trio

from pykbroker.broker.metadata import MetadataPublisher
from pykbroker.client.connection import connected
from pykbroker.client.errors import AuthenticationError
from pykbroker.client.security import ClientSecurity
from pykbroker.core.address import Address
from pykbroker.core.cluster_id import RequiredClusterId
from pykbroker.core.ids import UNASSIGNED
from pykbroker.core.security.authorizer import CLUSTER_NAME, LACKS_CLUSTER_ACTION
from pykbroker.core.security.forwarded import encode_host, encode_principal
from pykbroker.core.security.operation import Operation, ResourceType
from pykbroker.core.security.sasl.client import client_mechanism
from pykbroker.core.security.sasl.plain import PLAIN
from pykbroker.core.security.sasl.scram import ITERATIONS_MIN, SHA_256
from pykbroker.core.security.sasl.settings import PLAIN_MODULE, SCRAM_MODULE
from pykbroker.core.security.secret import Secret
from pykbroker.world.system import random_bits
from pykbroker.world.system_net import SystemNet
from tests.unit.apis.conftest import batch
from tests.unit.cluster.nodes import HOST, Node, cluster, eventually
from tests.unit.cluster.test_bad_clusters import failure_of
from tests.unit.cluster.test_replicated_topics import partitions
from tests.unit.tls.test_context import ca_pem, chain_of, issued, key_of
from tests.unit.world.tls_ends import CURVE, authority
from wire.declare import Request
from wire.error_codes import ErrorCode
from wire.frame import LENGTH_BYTES, decode_response, encode_request
from wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from wire.messages.alter_partition import AlterPartitionRequest
from wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from wire.messages.broker_registration import BrokerRegistrationRequest
from wire.messages.controller_registration import ControllerRegistrationRequest
from wire.messages.create_acls import AclCreation, CreateAclsRequest
from wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from wire.messages.describe_cluster import DescribeClusterRequest
from wire.messages.envelope import EnvelopeRequest
from wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from wire.messages.fetch_snapshot import FetchSnapshotRequest
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic

NODE, ALICE = "node", "alice"
LITERAL, ALLOW = 3, 3
CREATION = encode_request(CreateTopicsRequest([CreatableTopic("forwarded", 1, 1)]), 7, 1, "c")[LENGTH_BYTES:]


def password_of(user: str) -> str:
    return f"{user}-canary"


def login(user: str, password: str, mechanism: str) -> str:
    """Return the line of a node, for PLAIN with all users of its own listener."""
    users = " ".join(f'user_{each}="{password_of(each)}"' for each in (NODE, ALICE))
    module, options = (PLAIN_MODULE, users) if mechanism == PLAIN else (SCRAM_MODULE, "")
    return f'{module} required username="{user}" password="{password}" {options};'


def configs(user: str = NODE, password: str = "", mechanism: str = PLAIN) -> dict[str, str]:
    """Return the configs of a node that logs in as this user."""
    line = login(user, password or password_of(user), mechanism)
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:SASL_SSL,CONTROLLER:SASL_SSL",
        "inter.broker.listener.name": "INTERNAL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": key_of(issued(host=HOST)),
        "ssl.keystore.certificate.chain": chain_of(issued(host=HOST)),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": ca_pem(),
        "sasl.enabled.mechanisms": mechanism,
        "sasl.mechanism.inter.broker.protocol": mechanism,
        "sasl.mechanism.controller.protocol": mechanism,
        f"listener.name.internal.{mechanism.lower()}.sasl.jaas.config": line,
        f"listener.name.controller.{mechanism.lower()}.sasl.jaas.config": line,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{NODE};User:ANONYMOUS",
        "default.replication.factor": "2",
        "min.insync.replicas": "2",
        "initial.broker.registration.timeout.ms": "500",
    }


async def ask(address: Address, user: str, *requests: Request[Any], by: str = PLAIN) -> list[Any]:
    """Return the responses of a controller to requests of a user that logs in by this mechanism."""
    context = ssl.create_default_context(cadata=ca_pem())
    mechanism = client_mechanism(by, user, Secret(password_of(user)))
    net, found = SystemNet(), []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(net.run)
        security = ClientSecurity(lambda: context, mechanism, random_bits)
        async with connected(net, *address, "test", security) as connection:
            for request in requests:
                found.append(await connection.ask(request))
        nursery.cancel_scope.cancel()
    return found


def enveloped(user: str) -> EnvelopeRequest:
    return EnvelopeRequest(CREATION, encode_principal(f"User:{user}"), encode_host("10.0.0.1"))


OF_BROKERS: tuple[Request[Any], ...] = (
    BrokerRegistrationRequest(broker_id=2),
    BrokerHeartbeatRequest(broker_id=2),
    FetchRequest(topics=[FetchTopic(topic_id=UNASSIGNED, partitions=[FetchPartition(0)])]),
    FetchSnapshotRequest(),
    AlterPartitionRequest(broker_id=2),
    AllocateProducerIdsRequest(broker_id=2),
    AssignReplicasToDirsRequest(broker_id=2),
    ControllerRegistrationRequest(controller_id=1),
    DescribeClusterRequest(endpoint_type=2),
    enveloped(NODE),
)


async def check_rights_of_forwarded_requests(address: Address) -> None:
    """Check that a broker may forward requests, and that its client needs the right, whatever the broker may do."""
    (denied, done) = await ask(address, NODE, enveloped(ALICE), enveloped(NODE))
    codes = [
        decode_response(CreateTopicsResponse, 7, envelope.response_data)[1].topics[0].error_code
        for envelope in (denied, done)
    ]
    assert codes == [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.NONE]


async def test_nodes_know_each_other_and_a_user_at_the_controller_is_no_broker(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2, **configs()) as running:
        await running.clients[1].create("t", 2)
        for partition, placed in (await partitions(running.clients[2])).items():
            answer = await running.clients[placed.leader_id].produce("t", batch(b"both have it"), partition=partition)
            assert answer.error_code == ErrorCode.NONE
        controller = running.nodes[1].controller_address
        codes = [response.error_code for response in await ask(controller, ALICE, *OF_BROKERS)]
        assert codes == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * len(OF_BROKERS)
        await check_rights_of_forwarded_requests(controller)


async def test_nodes_log_in_by_scram_with_the_credentials_that_are_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that nodes log in at each other by SCRAM, and at a controller that has not applied its metadata yet."""
    of = SHA_256
    salted = hashlib.pbkdf2_hmac(of.hash, password_of(NODE).encode(), b"salt", ITERATIONS_MIN)
    early: list[str] = []

    async def run_later(publisher: MetadataPublisher) -> None:
        """Apply no metadata before a node has logged in at the controller."""
        bound = publisher._parts.controller_bound["CONTROLLER"]
        assert not publisher._parts.image().records.by_key
        await ask(Address(bound.host, bound.port), NODE, by=of.mechanism)
        early.append(NODE)
        await run(publisher)

    async with cluster(tmp_path, 1, **configs(mechanism=of.mechanism)) as running:
        credential = ScramCredentialUpsertion(NODE, of.number, ITERATIONS_MIN, b"salt", salted)
        (added,) = (await running.clients[1].call(AlterUserScramCredentialsRequest([], [credential]), 0)).results
        assert added.error_code == ErrorCode.NONE
        await running.start(2)
        await running.clients[1].create("t", 2)
        for partition, placed in (await partitions(running.clients[2])).items():
            answer = await running.clients[placed.leader_id].produce("t", batch(b"both have it"), partition=partition)
            assert answer.error_code == ErrorCode.NONE
        refusal = pytest.RaisesExc(AuthenticationError, match="due to invalid credentials with SASL mechanism SCRAM")
        with pytest.RaisesGroup(refusal, flatten_subgroups=True):
            await ask(running.nodes[1].controller_address, ALICE, by=of.mechanism)
        await running.stop_all()
        run = MetadataPublisher.run
        monkeypatch.setattr(MetadataPublisher, "run", run_later)
        await running.start(1)
    assert early == [NODE]


async def test_a_broker_without_a_user_serves_clients_and_says_why_it_follows_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = "listener.name.internal.plain.sasl.jaas.config"
    texts = configs() | {config: f"{PLAIN_MODULE} required;"}
    async with cluster(tmp_path, 1, 2, **texts) as running:
        await running.clients[1].create("t", 2)

        async def logs() -> list[str]:
            return [each for each in caplog.messages if each.startswith("INTERNAL: this node cannot connect")]

        lines = await eventually(logs)
        for partition, placed in (await partitions(running.clients[2])).items():
            leader = running.clients[placed.leader_id]
            answer = await leader.produce("t", batch(b"v"), partition=partition, acks=1)
            assert answer.error_code == ErrorCode.NONE
    assert lines[0].endswith(
        f"{config} has no username and no password, with which this node logs in at other nodes: add"
        ' username="…" password="…" to the login module'
    )


async def test_a_topic_is_created_by_the_rights_of_the_client_that_asks_for_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Check that the user of a broker needs no CREATE, as with Kafka, and that the audit log names the client."""
    caplog.set_level(logging.DEBUG, "kafka.authorizer.logger")
    async with cluster(tmp_path, 1, **configs() | {"super.users": "User:ANONYMOUS"}) as running:
        acting = AclCreation(
            ResourceType.CLUSTER, CLUSTER_NAME, LITERAL, f"User:{NODE}", "*", Operation.CLUSTER_ACTION, ALLOW
        )
        (added,) = (await running.clients[1].call(CreateAclsRequest([acting]), 3)).results
        assert added.error_code == ErrorCode.NONE
        client = await running.start(2)
        (topic,) = (await client.call(MetadataRequest([MetadataRequestTopic(name="automatic")]), 12)).topics
        assert topic.error_code == ErrorCode.NONE
    creators = {each.partition(" operation")[0] for each in caplog.messages if "request = CreateTopics" in each}
    assert creators == {"Principal = User:ANONYMOUS is Allowed"}


async def test_a_node_with_a_wrong_password_says_what_to_do(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with cluster(tmp_path, 1, **configs()) as running:
        stranger = Node(2, tmp_path / "stranger", running.nodes[1].controller_address, **configs(NODE, "wrong"))
        stranger.directory.mkdir()
        error = str(await failure_of(stranger))
    assert error.startswith("no controller at 127.0.0.1:")
    (line,) = (each for each in caplog.messages if each.startswith("CONTROLLER: this node cannot connect"))
    for each in (line, error):
        assert each.endswith(
            "Authentication failed: Invalid username or password: correct username and password in"
            f" listener.name.controller.plain.sasl.jaas.config, or add the user {NODE} to the users of the other node"
        )
    assert "canary" not in caplog.text


async def test_a_node_with_the_certificate_of_a_stranger_says_what_to_do(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    protocols = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:SSL,CONTROLLER:SSL"}
    mutual = configs() | protocols | {"ssl.client.auth": "required"}
    theirs = authority("others").issue_cert(HOST, key_type=CURVE)
    store = {"ssl.keystore.key": key_of(theirs), "ssl.keystore.certificate.chain": chain_of(theirs)}
    async with cluster(tmp_path, 1, **mutual) as running:
        stranger = Node(2, tmp_path / "stranger", running.nodes[1].controller_address, **(mutual | store))
        stranger.directory.mkdir()
        error = str(await failure_of(stranger))
    (line,) = (each for each in caplog.messages if each.startswith("CONTROLLER: this node cannot connect"))
    for each in (line, error):
        assert "the broker refuses the certificate of this client" in each
        assert each.endswith("set listener.name.controller.ssl.keystore.location to one that the broker trusts")


async def test_a_node_whose_user_is_no_broker_says_which_right_it_lacks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster(tmp_path, 1, **configs()) as running:
        stranger = Node(2, tmp_path / "stranger", running.nodes[1].controller_address, **configs(ALICE))
        stranger.directory.mkdir()
        error = str(await failure_of(stranger))
        assert error.endswith("allow it ALTER on the cluster, or name the id by --cluster-id")
        assert running.nodes[1].serving is not None
        named = RequiredClusterId(running.nodes[1].serving.cluster_id, "--cluster-id")
        error = str(await failure_of(stranger, cluster_id=named))
    assert error.endswith("the broker's log has the reason")
    address = running.nodes[1].controller_address
    assert f"no metadata comes from the controller at {address}: {LACKS_CLUSTER_ACTION}" in caplog.messages
