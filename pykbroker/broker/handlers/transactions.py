"""The handlers for transactions and idempotent producers."""

from __future__ import annotations

from pykbroker.apis.transactions.add_offsets_to_txn import AddOffsetsToTxn
from pykbroker.apis.transactions.add_partitions_to_txn import AddPartitionsToTxn
from pykbroker.apis.transactions.describe_transactions import DescribeTransactions
from pykbroker.apis.transactions.end_txn import EndTxn
from pykbroker.apis.transactions.init_producer_id import InitProducerId
from pykbroker.apis.transactions.list_transactions import ListTransactions
from pykbroker.apis.transactions.txn_offset_commit import TxnOffsetCommit
from pykbroker.apis.transactions.write_txn_markers import WriteTxnMarkers
from pykbroker.broker.parts import Parts
from pykbroker.core.coordinator.key import partition_of
from pykbroker.core.names import GROUP_METADATA_TOPIC
from pykbroker.server.handler import Handler


def transaction_handlers(parts: Parts) -> list[Handler]:
    """Return the handlers of `apis.transactions`."""
    transactions, image = parts.transactions.transactions, parts.image

    def group_partition(group: str) -> int:
        """Return the partition of `__consumer_offsets` for a group, even before the topic exists."""
        topic = image().topics.by_name.get(GROUP_METADATA_TOPIC)
        configured = parts.settings.config.offsets_topic_num_partitions
        return partition_of(group, configured if topic is None else len(topic.partitions))

    return [
        InitProducerId(parts.producer_ids, transactions),
        AddPartitionsToTxn(transactions, image),
        AddOffsetsToTxn(transactions, group_partition),
        EndTxn(transactions),
        WriteTxnMarkers(parts.transactions.endings, parts.settings.config.request_timeout_ms / 1000),
        TxnOffsetCommit(
            transactions=transactions,
            groups=parts.groups,
            replicas=parts.replicas,
            image=image,
            wall_ms=parts.world.wall_ms,
            verifies=parts.verifies_transactions,
        ),
        DescribeTransactions(transactions),
        ListTransactions(transactions, parts.world.wall_ms, parts.world.off_loop),
    ]
