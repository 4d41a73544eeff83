"""The catalogue of `__consumer_offsets`: the classes of key and value by record type."""

from wire.stored import classic_group as classic
from wire.stored import consumer_group as consumer
from wire.stored import group_offsets as offsets
from wire.stored import share_group as share
from wire.stored import streams_group as streams
from wire.stored.framing import Catalogue

GROUP_RECORDS: Catalogue = {
    key.record_type: (key, value)
    for key, value in (
        (offsets.LegacyOffsetCommitKey, offsets.LegacyOffsetCommitValue),
        (offsets.OffsetCommitKey, offsets.OffsetCommitValue),
        (classic.GroupMetadataKey, classic.GroupMetadataValue),
        (consumer.ConsumerGroupMetadataKey, consumer.ConsumerGroupMetadataValue),
        (consumer.ConsumerGroupPartitionMetadataKey, consumer.ConsumerGroupPartitionMetadataValue),
        (consumer.ConsumerGroupMemberMetadataKey, consumer.ConsumerGroupMemberMetadataValue),
        (consumer.ConsumerGroupTargetAssignmentMetadataKey, consumer.ConsumerGroupTargetAssignmentMetadataValue),
        (consumer.ConsumerGroupTargetAssignmentMemberKey, consumer.ConsumerGroupTargetAssignmentMemberValue),
        (consumer.ConsumerGroupCurrentMemberAssignmentKey, consumer.ConsumerGroupCurrentMemberAssignmentValue),
        (consumer.ConsumerGroupRegularExpressionKey, consumer.ConsumerGroupRegularExpressionValue),
        (share.ShareGroupMetadataKey, share.ShareGroupMetadataValue),
        (share.ShareGroupMemberMetadataKey, share.ShareGroupMemberMetadataValue),
        (share.ShareGroupTargetAssignmentMetadataKey, share.ShareGroupTargetAssignmentMetadataValue),
        (share.ShareGroupTargetAssignmentMemberKey, share.ShareGroupTargetAssignmentMemberValue),
        (share.ShareGroupCurrentMemberAssignmentKey, share.ShareGroupCurrentMemberAssignmentValue),
        (share.ShareGroupStatePartitionMetadataKey, share.ShareGroupStatePartitionMetadataValue),
        (streams.StreamsGroupMetadataKey, streams.StreamsGroupMetadataValue),
        (streams.StreamsGroupMemberMetadataKey, streams.StreamsGroupMemberMetadataValue),
        (streams.StreamsGroupTargetAssignmentMetadataKey, streams.StreamsGroupTargetAssignmentMetadataValue),
        (streams.StreamsGroupTargetAssignmentMemberKey, streams.StreamsGroupTargetAssignmentMemberValue),
        (streams.StreamsGroupCurrentMemberAssignmentKey, streams.StreamsGroupCurrentMemberAssignmentValue),
        (streams.StreamsGroupTopologyKey, streams.StreamsGroupTopologyValue),
    )
}
