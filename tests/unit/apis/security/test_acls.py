"""CreateAcls, DeleteAcls and DescribeAcls over the wire, and requests that ACLs allow and deny."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import trio.testing

from pykbroker.core.config.java_classes import STANDARD_AUTHORIZER
from pykbroker.core.security.operation import Operation
from tests.unit.apis.conftest import Client, batch, fetch_request, serving
from wire.declare import Request
from wire.error_codes import ErrorCode
from wire.messages.create_acls import AclCreation, CreateAclsRequest
from wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from wire.messages.describe_acls import DescribeAclsRequest
from wire.messages.fetch import FetchRequest

EVERY = (1, None, 1, None, None, 1, 1)
TOPIC, CLUSTER = 2, 4
LITERAL, PREFIXED = 3, 4
READ, WRITE, ALTER = 3, 4, 7
DENY, ALLOW = 2, 3
OPEN = {"authorizer_class_name": STANDARD_AUTHORIZER}
"""Configs with which the client of these tests is a super user, or is allowed what no ACL names."""
ANONYMOUS_IS_SUPER, EVERYONE_MAY = (
    OPEN | {"super_users": "User:ANONYMOUS"},
    OPEN | {"allow_everyone_if_no_acl_found": "true"},
)


@pytest.fixture(autouse=True)
def _levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kafka.authorizer.logger")


async def create(client: Client, *acls: tuple[Any, ...]) -> list[int]:
    response = await client.call(CreateAclsRequest([AclCreation(*acl) for acl in acls]), 3)
    return [result.error_code for result in response.results]


async def delete(client: Client, *filters: tuple[Any, ...]) -> list[tuple[int, int]]:
    response = await client.call(DeleteAclsRequest([DeleteAclsFilter(*one) for one in filters]), 3)
    return [(result.error_code, len(result.matching_acls)) for result in response.filter_results]


async def test_acls_are_described_by_resource_and_survive_a_restart(tmp_path: Path) -> None:
    acls = [
        (TOPIC, "u", PREFIXED, "User:b", "*", READ, ALLOW),
        (TOPIC, "u", PREFIXED, "User:a", "10.0.0.1", READ, DENY),
        (TOPIC, "t", LITERAL, "User:b", "*", READ, ALLOW),
    ]
    async with serving(tmp_path, **ANONYMOUS_IS_SUPER) as running:
        assert await create(await running.connect(), *acls) == [0, 0, 0]
    async with serving(tmp_path, **ANONYMOUS_IS_SUPER) as running:
        client = await running.connect()
        response = await client.call(DescribeAclsRequest(*EVERY), 3)
        assert (response.error_code, response.error_message) == (0, "")
        found = [
            (
                (one.resource_type, one.resource_name, one.pattern_type),
                [(acl.principal, acl.host, acl.operation, acl.permission_type) for acl in one.acls],
            )
            for one in response.resources
        ]
        assert found == [
            ((TOPIC, "t", LITERAL), [("User:b", "*", READ, ALLOW)]),
            ((TOPIC, "u", PREFIXED), [("User:a", "10.0.0.1", READ, DENY), ("User:b", "*", READ, ALLOW)]),
        ]
        assert await delete(client, (TOPIC, "u", PREFIXED, None, None, 1, DENY), EVERY) == [(0, 1), (0, 3)]
        assert (await client.call(DescribeAclsRequest(*EVERY), 1)).resources == []


async def test_an_acl_counts_from_its_creation_to_its_deletion(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path, **EVERYONE_MAY) as running:
        client = await running.connect()
        await client.create("t")
        assert (await client.produce("t", batch(b"v"))).error_code == 0
        assert await create(client, (TOPIC, "t", LITERAL, "User:other", "*", WRITE, ALLOW)) == [0]
        assert not [one for one in caplog.records if one.name == "kafka.authorizer.logger"]
        assert (await client.produce("t", batch(b"v"))).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        (line,) = [one for one in caplog.records if one.name == "kafka.authorizer.logger"]
        assert (line.levelname, line.getMessage()) == (
            "INFO",
            "Principal = User:ANONYMOUS is Denied operation = WRITE from host = 127.0.0.1 on resource ="
            " Topic:LITERAL:t for request = Produce with resourceRefCount = 1 based on rule DefaultDeny",
        )
        assert await create(client, (TOPIC, "*", LITERAL, "User:*", "127.0.0.1", WRITE, ALLOW)) == [0]
        assert (await client.produce("t", batch(b"v"))).error_code == 0
        assert await delete(client, EVERY) == [(0, 2)]
        assert (await client.produce("t", batch(b"v"))).error_code == 0


@pytest.mark.parametrize(("denied_topic", "is_denied"), [("t", True), ("u", False)])
async def test_a_denial_holds_for_a_fetch_that_waits(tmp_path: Path, denied_topic: str, is_denied: bool) -> None:
    async with serving(tmp_path, **EVERYONE_MAY) as running:
        client, waiting = [await running.connect() for _ in range(2)]
        await client.create("t")
        await waiting.send(fetch_request("t", 0, max_wait_ms=60_000), 12)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert await create(client, (TOPIC, denied_topic, LITERAL, "User:*", "*", READ, DENY)) == [0]
        assert await create(client, (TOPIC, "t", PREFIXED, "User:*", "*", Operation.ALL, ALLOW)) == [0]
        await client.produce("t", batch(b"v"))
        (topic,) = (await waiting.receive()).responses
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED if is_denied else 0
        assert (topic.partitions[0].error_code, bool(topic.partitions[0].records)) == (code, not is_denied)


async def test_a_denial_holds_for_the_next_request(tmp_path: Path) -> None:
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    async with serving(tmp_path, **EVERYONE_MAY) as running:
        client, in_session = [await running.connect() for _ in range(2)]
        await client.create("t")
        first = fetch_request("t", 0)
        first.session_epoch = 0
        session_id = (await in_session.call(first, 12)).session_id
        assert await create(client, (TOPIC, "t", LITERAL, "User:*", "*", READ, DENY)) == [0]
        assert await create(client, (TOPIC, "t", LITERAL, "User:*", "*", WRITE, ALLOW)) == [0]
        assert (await client.call(fetch_request("t", 0), 12)).responses[0].partitions[0].error_code == denied
        for epoch, code in ((1, denied), (2, denied), (3, 0)):
            if not code:
                assert await delete(client, EVERY) == [(0, 2)]
            further = FetchRequest(session_id=session_id, session_epoch=epoch, min_bytes=1, max_bytes=1 << 20)
            (topic,) = (await in_session.call(further, 12)).responses
            assert topic.partitions[0].error_code == code


async def test_only_clients_with_rights_on_the_cluster_change_and_see_acls(tmp_path: Path) -> None:
    async with serving(tmp_path, **EVERYONE_MAY) as running:
        client = await running.connect()
        acl = (CLUSTER, "kafka-cluster", LITERAL, "User:other", "*", ALTER, ALLOW)
        assert await create(client, acl) == [0]
        denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert await create(client, acl, acl) == [denied, denied]
        assert await delete(client, EVERY) == [(denied, 0)]
        assert (await client.call(DescribeAclsRequest(*EVERY), 3)).error_code == denied


@pytest.mark.parametrize("field", [0, 2, 5, 6])
async def test_a_request_with_an_unknown_number_closes_the_connection(tmp_path: Path, field: int) -> None:
    numbers: list[Any] = [TOPIC, "t", LITERAL, "User:a", "*", READ, ALLOW]
    numbers[field] = 0
    requests: list[Request[Any]] = [
        CreateAclsRequest([AclCreation(*numbers)]),
        DeleteAclsRequest([DeleteAclsFilter(*numbers)]),
        DescribeAclsRequest(*numbers),
    ]
    async with serving(tmp_path, **ANONYMOUS_IS_SUPER) as running:
        for request in requests:
            client = await running.connect()
            await client.send(request, 3)
            assert await client.closed()
