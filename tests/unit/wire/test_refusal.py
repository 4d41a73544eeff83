"""The response that refuses a request is that of Kafka: the error in each result, and the name of its item."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykbroker.core.security.rights import RIGHTS
from pykbroker.core.steps import finish
from tests.unit.wire.distinct import distinct
from wire.api import ApiKey
from wire.apis import APIS
from wire.compile import decoder, encoder
from wire.declare import Request, Response
from wire.error_codes import ErrorCode
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
CODE, WHY = ErrorCode.POLICY_VIOLATION, "why"
REFUSALS = Path(__file__).parents[2] / "data" / "protocol" / "refusals.txt"
OWN: dict[ApiKey, set[str]] = {
    ApiKey.FETCH: {"session_id", "aborted_transactions"},
    ApiKey.JOIN_GROUP: {"member_id"},
    ApiKey.CONSUMER_GROUP_HEARTBEAT: {"error_message"},  # the group coordinator refuses requests with a message
    ApiKey.CREATE_DELEGATION_TOKEN: {
        "principal_type",
        "principal_name",
        "token_requester_principal_type",
        "token_requester_principal_name",
        "issue_timestamp_ms",
        "expiry_timestamp_ms",
        "max_timestamp_ms",
    },
}
"""The fields whose values differ from those of Kafka."""
FETCH_WITHOUT_RESULTS_VERSION_FIRST = 13
"""The first version in which Kafka refuses a Fetch at the top level alone."""
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
        DeleteTopicsResponse(responses=[DeletableTopicResult(None, ID, CODE)]),
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
        ElectLeadersResponse(replica_election_results=[ReplicaElectionResult("a", [PartitionResult(3, CODE, WHY)])]),
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
            results=[AlterUserScramCredentialsResult(name, CODE, WHY) for name in ("ann", "bob")]
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


def recorded() -> dict[tuple[ApiKey, int], tuple[bytes, bytes]]:
    """Map each API and version to the response without a message, and to that with the message `WHY`."""
    lines = [line.split() for line in REFUSALS.read_text().splitlines() if not line.startswith("#")]
    return {
        (ApiKey[name], int(version)): (bytes.fromhex(bodies[0]), bytes.fromhex(bodies[-1]))
        for name, version, *bodies in lines
    }


def decoded(key: ApiKey, version: int, body: bytes) -> Response:
    return decoder(APIS[key].response, version)(body, 0, len(body))


def plain(part: Any, without: set[str]) -> Any:
    """Return the fields of a response. Results are sorted, since some of Kafka's are in the order of a hash table."""
    if isinstance(part, list):
        return sorted((plain(each, without) for each in part), key=repr)
    names = getattr(part, "__struct_fields__", None)
    return (
        part if names is None else {name: plain(getattr(part, name), without) for name in names if name not in without}
    )


def test_every_version_was_recorded_from_kafka() -> None:
    assert set(recorded()) == {(key, version) for key in RIGHTS for version in versions(key)}


@pytest.mark.parametrize("key", RIGHTS, ids=lambda key: key.name)
def test_every_version_is_refused_as_by_kafka(key: ApiKey) -> None:
    kafkas = recorded()
    for version in versions(key):
        without = OWN.get(key, set())
        if key is ApiKey.FETCH and version >= FETCH_WITHOUT_RESULTS_VERSION_FIRST:
            without = {*without, "responses"}
        for message, body in zip((None, WHY), kafkas[key, version], strict=True):
            parts: list[Any] = []
            refused = refusal(distinct(APIS[key].request, version), version, CODE, message)
            encoder(APIS[key].response, version)(refused, parts)
            ours, theirs = decoded(key, version, b"".join(parts)), decoded(key, version, body)
            assert plain(ours, without) == plain(theirs, without)


@pytest.mark.parametrize(("request_", "version", "expected"), REFUSED)
def test_each_result_names_its_item(request_: Request[Any], version: int, expected: Response) -> None:
    assert refusal(request_, version, CODE, WHY) == expected


def test_the_results_of_refused_topics_are_added_to_those_of_others() -> None:
    def topic(name: str, *indexes: int) -> OffsetCommitResponseTopic:
        return OffsetCommitResponseTopic(name, partitions=[OffsetCommitResponsePartition(index) for index in indexes])

    response = OffsetCommitResponse(topics=[topic("a", 0), topic("b", 1)])
    of_other_id = OffsetCommitResponseTopic("b", ID, [OffsetCommitResponsePartition(3)])
    merging = merge(response, [topic("c", 2), topic("a", 4), of_other_id, topic("c", 5)])
    assert finish(merging) is response
    assert response.topics == [topic("a", 0, 4), topic("b", 1), topic("c", 2, 5), of_other_id]
