"""Transactional requests without the rights they need: the handler refuses them before it calls the coordinator."""

from __future__ import annotations

from typing import Any

import pytest

from pykbroker.apis.transactions.add_offsets_to_txn import AddOffsetsToTxn
from pykbroker.apis.transactions.add_partitions_to_txn import AddPartitionsToTxn
from pykbroker.apis.transactions.describe_transactions import DescribeTransactions
from pykbroker.apis.transactions.end_txn import EndTxn
from pykbroker.apis.transactions.txn_offset_commit import TxnOffsetCommit
from pykbroker.core.security.operation import Operation
from pykbroker.server.handler import Later
from tests.unit.apis.calling import Denies, context, gone_through, work_of
from wire.error_codes import ErrorCode
from wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from wire.messages.describe_transactions import DescribeTransactionsRequest
from wire.messages.end_txn import EndTxnRequest
from wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

NO_ID, NO_GROUP = (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED)
NOBODY: Any = None
"""A double of the coordinator; any call to it fails."""


async def answer(handler: Any, version: int, request: Any, denied: Operation) -> Any:
    found = gone_through(handler(context(version, Denies(denied)), request))
    return await work_of(found) if isinstance(found, Later) else found


async def test_end_txn_is_authorized() -> None:
    response = await answer(EndTxn(NOBODY), 5, EndTxnRequest("x", 1, 0, True), Operation.WRITE)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (NO_ID, -1, -1)


@pytest.mark.parametrize(("denied", "code"), [(Operation.WRITE, NO_ID), (Operation.READ, NO_GROUP)])
async def test_transactional_offset_commits_are_authorized(denied: Operation, code: ErrorCode) -> None:
    handler = AddOffsetsToTxn(NOBODY, NOBODY)
    assert (await answer(handler, 3, AddOffsetsToTxnRequest("x", 1, 0, "g"), denied)).error_code == code
    topics = [TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(4, 1)])]
    committing = TxnOffsetCommit(NOBODY, NOBODY, NOBODY, NOBODY, NOBODY, NOBODY)
    (topic,) = (await answer(committing, 5, TxnOffsetCommitRequest("x", "g", 1, 0, topics=topics), denied)).topics
    assert [(topic.name, one.partition_index, one.error_code) for one in topic.partitions] == [("t", 4, code)]


async def test_adding_partitions_is_authorized() -> None:
    topics = [AddPartitionsToTxnTopic("t", [0, 1])]
    client = AddPartitionsToTxn(NOBODY, NOBODY)
    asked = AddPartitionsToTxnRequest(v3_and_below_transactional_id="x", v3_and_below_topics=topics)
    (topic,) = (await answer(client, 3, asked, Operation.WRITE)).results_by_topic_v3_and_below
    assert [one.partition_error_code for one in topic.results_by_partition] == [NO_ID, NO_ID]


async def test_descriptions_of_transactions_are_authorized() -> None:
    handler = DescribeTransactions(NOBODY)
    (state,) = (await answer(handler, 0, DescribeTransactionsRequest(["x"]), Operation.DESCRIBE)).transaction_states
    assert (state.transactional_id, state.error_code, state.transaction_state) == ("x", NO_ID, "")
