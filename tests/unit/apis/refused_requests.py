"""An example request of each API that authorizes the request as a whole, not each item."""

from __future__ import annotations

from typing import Any

from wire.api import ApiKey
from wire.declare import Request
from wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from wire.messages.add_raft_voter import AddRaftVoterRequest
from wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from wire.messages.alter_replica_log_dirs import AlterReplicaLogDir, AlterReplicaLogDirsRequest, AlterReplicaLogDirTopic
from wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from wire.messages.create_acls import AclCreation, CreateAclsRequest
from wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from wire.messages.describe_acls import DescribeAclsRequest
from wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from wire.messages.init_producer_id import InitProducerIdRequest
from wire.messages.list_config_resources import ListConfigResourcesRequest
from wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from wire.messages.unregister_broker import UnregisterBrokerRequest
from wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

ACL: dict[str, Any] = {"resource_type": 2, "operation": 3, "permission_type": 3}
FILTER: dict[str, Any] = {"resource_type_filter": 2, "operation": 3, "permission_type": 3}
REQUESTS: dict[ApiKey, Request[Any]] = {
    request.key: request
    for request in (
        DescribeAclsRequest(**FILTER),
        CreateAclsRequest([AclCreation(resource_name=name, principal="User:a", host="*", **ACL) for name in "ab"]),
        DeleteAclsRequest([DeleteAclsFilter(resource_name_filter=name, **FILTER) for name in "ab"]),
        AlterReplicaLogDirsRequest([AlterReplicaLogDir("/d", [AlterReplicaLogDirTopic("a", [0, 1])])]),
        DescribeLogDirsRequest([DescribableLogDirTopic("a", [0, 1])]),
        DescribeClientQuotasRequest([ComponentData("user", 0, "u")]),
        AlterClientQuotasRequest(
            [
                AlterClientQuotasRequestEntryData([EntityData("user", "u")], [OpData("producer_byte_rate", 1.0)]),
                AlterClientQuotasRequestEntryData([EntityData("client-id", None)], [OpData("consumer_byte_rate", 1.0)]),
            ]
        ),
        DescribeUserScramCredentialsRequest([UserName("u"), UserName("v")]),
        AlterUserScramCredentialsRequest(
            [ScramCredentialDeletion("u", 1)], [ScramCredentialUpsertion("v", 1, 4096, b"salt", b"password")]
        ),
        DescribeQuorumRequest(
            [DescribeQuorumRequestTopicData("__cluster_metadata", [DescribeQuorumRequestPartitionData(0)])]
        ),
        InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000),
        WriteTxnMarkersRequest([WritableTxnMarker(7, 1, True, [WritableTxnMarkerTopic("a", [3])])]),
        AddPartitionsToTxnRequest(
            [AddPartitionsToTxnTransaction("t", 7, 1, True, [AddPartitionsToTxnTopic("a", [0, 1])])]
        ),
        ElectLeadersRequest(topic_partitions=[TopicPartitions("a", [0, 1]), TopicPartitions("b", [0])]),
        AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic("a", [ReassignablePartition(0, [1]), ReassignablePartition(1, None)])]
        ),
        ListPartitionReassignmentsRequest(topics=[ListPartitionReassignmentsTopics("a", [0, 1])]),
        AddRaftVoterRequest("c", 1000, 2),
        RemoveRaftVoterRequest("c", 2),
        UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("group.version", 1)]),
        UnregisterBrokerRequest(2),
        ListConfigResourcesRequest(),
    )
}
