"""AddRaftVoter and RemoveRaftVoter: a quorum of one voter cannot change, and the error message gives the reason."""

from __future__ import annotations

from typing import Any

import pytest

from pykbroker.apis.raft.add_raft_voter import NO_CHANGE, AddRaftVoter
from pykbroker.apis.raft.remove_raft_voter import RemoveRaftVoter
from tests.unit.apis.conftest import Client
from wire.declare import NIL
from wire.error_codes import ErrorCode
from wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from wire.messages.describe_cluster import DescribeClusterRequest
from wire.messages.remove_raft_voter import RemoveRaftVoterRequest

UNSUPPORTED, INVALID = ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_REQUEST
ANY_CONTEXT: Any = None
HERE = [Listener("PLAINTEXT", "localhost", 9093)]


def adding(**fields: Any) -> AddRaftVoterRequest:
    return AddRaftVoterRequest(
        **{"cluster_id": None, "voter_id": 2, "voter_directory_id": b"d" * 16, "listeners": HERE, **fields}
    )


def removing(**fields: Any) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(**{"cluster_id": None, "voter_id": 2, "voter_directory_id": b"d" * 16, **fields})


@pytest.mark.parametrize(
    ("version", "handler", "make", "doing"),
    [
        (0, AddRaftVoter, adding, "adding"),
        (1, AddRaftVoter, adding, "adding"),
        (0, RemoveRaftVoter, removing, "removing"),
    ],
)
async def test_every_version_refuses_to_change_the_voters(
    client: Client, version: int, handler: Any, make: Any, doing: str
) -> None:
    cluster_id = (await client.call(DescribeClusterRequest(), 0)).cluster_id
    for fields in ({}, {"cluster_id": cluster_id}, {"voter_id": 1}, {"voter_id": 0}):
        response = await client.call(make(**fields), version)
        assert (response.error_code, response.error_message) == (UNSUPPORTED, NO_CHANGE)
    static = handler("c", lambda: 0, *(["PLAINTEXT"] if handler is AddRaftVoter else []))
    assert static(ANY_CONTEXT, make()).error_message == (
        f"Cluster doesn't support {doing} voter because the kraft.version feature is 0"
    )


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"cluster_id": ""}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"cluster_id": "x"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"voter_id": -1}, INVALID),
        ({"voter_id": -(2**31)}, INVALID),
        ({"voter_directory_id": NIL}, INVALID),
    ],
)
async def test_an_invalid_voter_is_refused_with_the_reason(
    client: Client, fields: dict[str, Any], code: ErrorCode
) -> None:
    for request in (adding(**fields), removing(**fields)):
        assert (await client.call(request, 0)).error_code == code


@pytest.mark.parametrize(
    ("listeners", "code"),
    [
        ([], INVALID),
        ([Listener("OTHER", "localhost", 9093)], INVALID),
        (HERE * 2, UNSUPPORTED),
        ([Listener("OTHER", "", 0), *HERE], UNSUPPORTED),
    ],
)
async def test_a_new_voter_must_have_the_controller_listener(
    client: Client, listeners: list[Listener], code: ErrorCode
) -> None:
    assert (await client.call(adding(listeners=listeners), 1)).error_code == code
