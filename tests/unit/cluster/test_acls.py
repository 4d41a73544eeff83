"""ACLs in a cluster: the controller decides and stores them, and every broker and the controller obey them."""

from __future__ import annotations

from pathlib import Path

from pykbroker.core.config.java_classes import STANDARD_AUTHORIZER
from pykbroker.core.security.forwarded import encode_host, encode_principal
from tests.unit.apis.conftest import Client, batch
from tests.unit.cluster.nodes import cluster
from wire.error_codes import ErrorCode
from wire.frame import decode_response, encode_request
from wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from wire.messages.describe_acls import DescribeAclsRequest
from wire.messages.envelope import EnvelopeRequest

LENGTH_BYTES = 4
TOPIC, CLUSTER, LITERAL, WRITE, ALTER, ALLOW = 2, 4, 3, 4, 7, 3
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def create(client: Client, *acls: AclCreation) -> list[int]:
    response = await client.call(CreateAclsRequest(list(acls)), 3)
    return [result.error_code for result in response.results]


async def described(client: Client) -> int:
    """Return the number of resources that have ACLs."""
    response = await client.call(DescribeAclsRequest(1, None, 1, None, None, 1, 1), 3)
    return len(response.resources)


async def test_an_acknowledged_acl_counts_on_every_broker_also_after_a_restart(tmp_path: Path) -> None:
    configs = {"authorizer_class_name": STANDARD_AUTHORIZER, "allow_everyone_if_no_acl_found": "true"}
    async with cluster(tmp_path, 1, 2, **configs) as running:
        first, second = running.clients[1], running.clients[2]
        await first.create("t", 2)
        by_leader = {}
        for partition in (0, 1):
            for client in (first, second):
                if (await client.produce("t", batch(b"v"), partition=partition)).error_code == 0:
                    by_leader[client] = partition
        assert len(by_leader) == 2
        acl = AclCreation(TOPIC, "t", LITERAL, "User:other", "*", WRITE, ALLOW)
        assert await create(second, acl) == [0]
        for client, partition in by_leader.items():
            assert (await client.produce("t", batch(b"v"), partition=partition)).error_code == DENIED
            assert await described(client) == 1
        await running.stop(2)
        again = await running.start(2)
        assert (await again.produce("t", batch(b"v"), partition=by_leader[second])).error_code == DENIED


async def test_the_controller_authorizes_the_client_of_a_forwarded_request(tmp_path: Path) -> None:
    configs = {"authorizer_class_name": STANDARD_AUTHORIZER, "super_users": "User:ANONYMOUS"}
    async with cluster(tmp_path, 1, **configs) as running:
        controller = await running.controller_client()

        async def forward(host: str) -> list[int]:
            acl = AclCreation(TOPIC, "t", LITERAL, "User:other", "*", WRITE, ALLOW)
            request = encode_request(CreateAclsRequest([acl]), 3, 1, "alice")[LENGTH_BYTES:]
            envelope = EnvelopeRequest(request, encode_principal("User:alice"), encode_host(host))
            response = await controller.call(envelope, 0)
            assert response.error_code == 0
            answer = decode_response(CreateAclsResponse, 3, response.response_data)[1]
            return [result.error_code for result in answer.results]

        assert await forward("10.0.0.1") == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
        acl = AclCreation(CLUSTER, "kafka-cluster", LITERAL, "User:alice", "10.0.0.1", ALTER, ALLOW)
        assert await create(running.clients[1], acl) == [0]
        assert await forward("10.0.0.2") == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
        assert await forward("10.0.0.1") == [0]
        assert await described(controller) == 2
