"""DeleteTopics, by name or by id; each topic has its own result."""

from __future__ import annotations

from collections import Counter
from itertools import chain

from pykbroker.core.metadata.context import ControllerContext, Deciding
from pykbroker.core.metadata.record import Record
from wire.declare import NIL
from wire.error_codes import ErrorCode
from wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from wire.stored.metadata_topics import RemoveTopicRecord

Refusal = tuple[ErrorCode, str]

NEITHER: Refusal = ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified."
BOTH: Refusal = ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."
NAME_TWICE: Refusal = ErrorCode.INVALID_REQUEST, "Duplicate topic name."
ID_TWICE: Refusal = ErrorCode.INVALID_REQUEST, "Duplicate topic id."
NAMED_TWICE: Refusal = ErrorCode.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied."
UNKNOWN_NAME: Refusal = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.message
UNKNOWN_ID: Refusal = ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_ID.message


def delete_topics(context: ControllerContext, request: DeleteTopicsRequest) -> Deciding:
    """Return the metadata records and the response. A topic that is named twice is not deleted and has one result.

    Entries with neither name nor id have one result each.
    """
    times = Counter[tuple[str | None, bytes]]()
    ids, named = set[bytes](), set[bytes]()
    for requested in chain(request.topics, (DeleteTopicState(name=name) for name in request.topic_names)):
        times[requested.name, requested.topic_id] += 1
        if requested.name is None:
            ids.add(requested.topic_id)
        elif (known := context.draft.names.get(requested.name)) is not None:
            named.add(known.id)
        yield
    records: list[Record] = []
    results = [refused(None, NIL, NEITHER)] * times.pop((None, NIL), 0)
    for (name, topic_id), count in times.items():
        yield
        if name is None and topic_id in named:
            continue  # the entry by name already has the result
        refusal = _refusal(context, name, topic_id, count, ids)
        if refusal is not None:
            if refusal is NAMED_TWICE and name is not None:
                topic_id = context.draft.names[name].id
            results.append(refused(name, topic_id, refusal))
            continue
        topic = context.draft.topics[topic_id] if name is None else context.draft.names[name]
        records.append(RemoveTopicRecord(topic_id=topic.id))
        results.append(DeletableTopicResult(name=topic.name, topic_id=topic.id))
    return records, DeleteTopicsResponse(responses=results)


def refused(name: str | None, topic_id: bytes, refusal: Refusal) -> DeletableTopicResult:
    """Return the result of a topic that is not deleted."""
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=refusal[0], error_message=refusal[1])


def _refusal(
    context: ControllerContext, name: str | None, topic_id: bytes, count: int, ids: set[bytes]
) -> Refusal | None:
    if name is None:
        if count > 1:
            return ID_TWICE
        return None if topic_id in context.draft.topics else UNKNOWN_ID
    if topic_id != NIL:
        return BOTH
    if count > 1:
        return NAME_TWICE
    if (topic := context.draft.names.get(name)) is None:
        return UNKNOWN_NAME
    return NAMED_TWICE if topic.id in ids else None
