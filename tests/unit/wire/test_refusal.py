"""The response that refuses a request has the error in each result, and each result names its item."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from pykbroker.core.security.rights import RIGHTS
from pykbroker.core.steps import finish
from tests.unit.wire.filled import filled
from wire.api import ApiKey
from wire.apis import APIS
from wire.compile import encoder
from wire.declare import Request, Response
from wire.error_codes import ErrorCode
from wire.errors import EncodeError
from wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
    AlterReplicaLogDirTopicResult,
)
from wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic
from wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from wire.refusal import merge, refusal

ID = b"i" * 16
CODE = ErrorCode.POLICY_VIOLATION
WITH_RESULTS = {
    ApiKey.PRODUCE: {"responses.partition_responses": 4},
    ApiKey.FETCH: {"": 1, "responses.partitions": 4},
    ApiKey.LIST_OFFSETS: {"topics.partitions": 4},
    ApiKey.METADATA: {"": 1, "topics": 2},
    ApiKey.CREATE_TOPICS: {"topics": 2},
    ApiKey.DELETE_TOPICS: {"responses": 2},
    ApiKey.DELETE_RECORDS: {"topics.partitions": 4},
    ApiKey.OFFSET_FOR_LEADER_EPOCH: {"topics.partitions": 4},
    ApiKey.CREATE_ACLS: {"results": 2},
    ApiKey.DELETE_ACLS: {"filter_results": 2},
    ApiKey.DESCRIBE_CONFIGS: {"results": 2},
    ApiKey.ALTER_REPLICA_LOG_DIRS: {"results.partitions": 8},
    ApiKey.ALTER_CONFIGS: {"responses": 2},
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {"responses": 2},
    ApiKey.CREATE_PARTITIONS: {"results": 2},
    ApiKey.ALTER_CLIENT_QUOTAS: {"entries": 2},
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: {"": 1, "results": 2},
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: {"results": 1},
    ApiKey.FIND_COORDINATOR: {"coordinators": 2},
    ApiKey.OFFSET_COMMIT: {"topics.partitions": 4},
    ApiKey.DESCRIBE_GROUPS: {"groups": 2},
    ApiKey.DELETE_GROUPS: {"results": 2},
    ApiKey.CONSUMER_GROUP_DESCRIBE: {"groups": 2},
    ApiKey.ELECT_LEADERS: {"": 1, "replica_election_results.partition_result": 4},
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: {"": 1, "responses.partitions": 4},
    ApiKey.DESCRIBE_PRODUCERS: {"topics.partitions": 4},
    ApiKey.WRITE_TXN_MARKERS: {"markers.topics.partitions": 8},
    ApiKey.TXN_OFFSET_COMMIT: {"topics.partitions": 4},
    ApiKey.DESCRIBE_TRANSACTIONS: {"transaction_states": 2},
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: {"topics": 2},
}
"""The number of errors at each place of the response to a request that has two items in each list.

All other APIs have one error, at the top level.
"""
WITHOUT_ERROR = [(ApiKey.OFFSET_FETCH, version) for version in (1, 8, 9, 10)]
"""Such a request cannot be refused: the connection is closed."""
REFUSED: list[tuple[Request[Any], int, Response]] = [
    (
        OffsetCommitRequest(topics=[OffsetCommitRequestTopic("a", ID, [OffsetCommitRequestPartition(3, 7)])]),
        10,
        OffsetCommitResponse(topics=[OffsetCommitResponseTopic("", ID, [OffsetCommitResponsePartition(3, CODE)])]),
    ),
    (
        MetadataRequest([MetadataRequestTopic(ID, None), MetadataRequestTopic(name="a")]),
        12,
        MetadataResponse(topics=[MetadataResponseTopic(CODE, "", ID), MetadataResponseTopic(CODE, "a")]),
    ),
    (
        DeleteTopicsRequest([DeleteTopicState(None, ID)]),
        6,
        DeleteTopicsResponse(responses=[DeletableTopicResult(None, ID, CODE, "why")]),
    ),
    (
        DeleteTopicsRequest(topic_names=["a"]),
        1,
        DeleteTopicsResponse(responses=[DeletableTopicResult("a", error_code=CODE)]),
    ),
    (ElectLeadersRequest(topic_partitions=None), 1, ElectLeadersResponse(error_code=CODE)),
    (
        ElectLeadersRequest(topic_partitions=[TopicPartitions("a", [3])]),
        0,
        ElectLeadersResponse(replica_election_results=[ReplicaElectionResult("a", [PartitionResult(3, CODE, "why")])]),
    ),
    (
        AlterReplicaLogDirsRequest([AlterReplicaLogDir(path, [AlterReplicaLogDirTopic("a", [1])]) for path in "de"]),
        2,
        AlterReplicaLogDirsResponse(
            results=[AlterReplicaLogDirTopicResult("a", [AlterReplicaLogDirPartitionResult(1, CODE)])] * 2
        ),
    ),
    (
        AlterUserScramCredentialsRequest(
            [ScramCredentialDeletion("ann", 1)], [ScramCredentialUpsertion("ann", 2), ScramCredentialUpsertion("bob")]
        ),
        0,
        AlterUserScramCredentialsResponse(
            results=[AlterUserScramCredentialsResult(name, CODE, "why") for name in ("ann", "bob")]
        ),
    ),
    (
        WriteTxnMarkersRequest([WritableTxnMarker(7, topics=[WritableTxnMarkerTopic("a", [3])])]),
        1,
        WriteTxnMarkersResponse(
            [
                WritableTxnMarkerResult(
                    7, [WritableTxnMarkerTopicResult("a", [WritableTxnMarkerPartitionResult(3, CODE)])]
                )
            ]
        ),
    ),
    (JoinGroupRequest("g", member_id="me"), 6, JoinGroupResponse(error_code=CODE, member_id="me")),
    (JoinGroupRequest(member_id="me"), 7, JoinGroupResponse(error_code=CODE, protocol_name=None, member_id="me")),
    (DescribeLogDirsRequest(), 1, DescribeLogDirsResponse()),
]


def versions(key: ApiKey) -> range:
    return range(APIS[key].accepted.first, APIS[key].accepted.last + 1)


def places(part: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the path of each error in a response."""
    for name in part.__struct_fields__:
        value = getattr(part, name)
        if name == "error_code" and value == CODE:
            yield ".".join(path)
        for result in value if isinstance(value, list) else ():
            if hasattr(result, "__struct_fields__"):
                yield from places(result, (*path, name))


@pytest.mark.parametrize("key", RIGHTS, ids=lambda key: key.name)
def test_the_error_is_in_every_result(key: ApiKey) -> None:
    expected = WITH_RESULTS.get(key, {"": 1})
    last = max(version for version in versions(key) if (key, version) not in WITHOUT_ERROR)
    assert Counter(places(refusal(filled(APIS[key].request, last), last, CODE))) == expected


@pytest.mark.parametrize("key", RIGHTS, ids=lambda key: key.name)
def test_the_refusal_of_every_version_can_be_encoded(key: ApiKey) -> None:
    for version in versions(key):
        if (key, version) not in WITHOUT_ERROR:
            refused = refusal(filled(APIS[key].request, version), version, CODE, "why")
            parts: list[Any] = []
            encoder(APIS[key].response, version)(refused, parts)
            assert parts


@pytest.mark.parametrize(("key", "version"), WITHOUT_ERROR)
def test_a_response_without_a_field_for_the_error_is_none(key: ApiKey, version: int) -> None:
    with pytest.raises(EncodeError, match=f"v{version} has no field for an error"):
        refusal(filled(APIS[key].request, version), version, CODE)


@pytest.mark.parametrize(("request_", "version", "expected"), REFUSED)
def test_each_result_names_its_item(request_: Request[Any], version: int, expected: Response) -> None:
    assert refusal(request_, version, CODE, "why") == expected


def test_the_results_of_refused_topics_are_added_to_those_of_others() -> None:
    def topic(name: str, *indexes: int) -> OffsetCommitResponseTopic:
        return OffsetCommitResponseTopic(name, partitions=[OffsetCommitResponsePartition(index) for index in indexes])

    response = OffsetCommitResponse(topics=[topic("a", 0), topic("b", 1)])
    of_other_id = OffsetCommitResponseTopic("b", ID, [OffsetCommitResponsePartition(3)])
    merging = merge(response, [topic("c", 2), topic("a", 4), of_other_id, topic("c", 5)])
    assert finish(merging) is response
    assert response.topics == [topic("a", 0, 4), topic("b", 1), topic("c", 2, 5), of_other_id]
