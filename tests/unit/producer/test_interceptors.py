"""Interceptors of the producer: what they see of records and of columns, and an interceptor that fails."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from pykbroker.core.producer.errors import AppendCancelled, RecordTooLarge, TransactionAbortable
from pykbroker.core.producer.record import ProducerRecord
from pykbroker.producer.delivery import RowsFailed
from pykbroker.producer.record import ProducerColumns
from tests.unit.producer.conftest import Producing, delayed, refuse
from wire.api import ApiKey
from wire.error_codes import ErrorCode


class Noting:
    """An interceptor that notes its calls, and marks values."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.outcomes: list[Any] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.sent.append(record)
        return record._replace(value=record.value + b"!")

    def on_acknowledgement(self, metadata: Any, error: Any) -> None:
        self.outcomes.append((metadata, error))

    def on_send_many(self, columns: ProducerColumns) -> ProducerColumns:
        self.sent.append(columns)
        return columns._replace(values=[(value or b"") + b"?" for value in columns.values])

    def on_acknowledgement_many(self, result: Any, error: Any) -> None:
        self.outcomes.append((result, error))


class Failing:
    """An interceptor of which every method fails, or returns nothing."""

    def on_send(self, _record: ProducerRecord) -> None:
        return None

    def on_send_many(self, _columns: ProducerColumns) -> None:
        raise ZeroDivisionError("planted")

    def on_acknowledgement_many(self, _result: Any, _error: Any) -> None:
        raise ZeroDivisionError("planted")


async def test_interceptors_see_columns_once(autojump_clock, producing: Producing) -> None:
    noting = Noting()
    async with producing.producer(interceptors=[noting], batch_size=200) as producer:
        values = [b"%03d" % number for number in range(100)]
        delivery = await producer.send_many("topic", values, partition=0)
        result = await delivery
        await producer.flush()
        assert noting.sent == [ProducerColumns("topic", values, None, None, None, 0)]
        assert noting.outcomes == [(result, None)]
    assert producing.values(0) == [value + b"?" for value in values]


async def test_interceptors_see_the_rows_that_failed(autojump_clock, producing: Producing) -> None:
    noting = Noting()
    refuse(producing.cluster, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    async with producing.producer(interceptors=[noting]) as producer:
        with pytest.raises(RowsFailed) as caught:
            await (await producer.send_many("topic", [b"1", b"2"], partition=0))
        await producer.flush()
        [(result, error)] = noting.outcomes
        assert (result, type(error), error.errors.keys()) == (None, RowsFailed, caught.value.errors.keys())


async def test_a_refused_record_is_acknowledged_with_its_error(autojump_clock, producing: Producing) -> None:
    noting = Noting()
    async with producing.producer(interceptors=[noting]) as producer:
        with pytest.raises(RecordTooLarge):
            await producer.send("topic", b"x" * 2_000_000)
        with pytest.raises(RecordTooLarge, match="row 1 of 2000"):
            await producer.send_many("topic", [b"", b""], headers=[(), (("name", b"x" * 2_000_000),)])
        assert [(metadata, type(error)) for metadata, error in noting.outcomes] == [(None, RecordTooLarge)] * 2


async def test_an_interceptor_that_fails_is_logged_and_skipped(autojump_clock, producing: Producing, caplog) -> None:
    noting = Noting()
    async with producing.producer(interceptors=[Failing(), noting]) as producer:
        await (await producer.send("topic", b"one", partition=0))
        await (await producer.send_many("topic", [b"many"], partition=0))
    assert producing.values(0) == [b"one!", b"many?"]
    failures = [record.getMessage() for record in caplog.records if "is skipped" in record.getMessage()]
    assert [text.partition(" failed in ")[2].split()[0].rstrip(",") for text in failures] == [
        "on_send",
        "on_send_many",
        "on_acknowledgement_many",
    ]


@pytest.mark.parametrize(
    ("columns", "error", "text"),
    [
        ({"timestamps": [1, None]}, TypeError, "row 1: the timestamp None is no integer"),
        ({"timestamps": [1 << 63, 1]}, ValueError, "row 0: the timestamp 9223372036854775808 has more than 64 bits"),
        ({"headers": [(), [("name", 1)]]}, TypeError, "row 1: the header 'name' has a value of type int"),
        ({"headers": [(), [("\ud800", b"")]]}, ValueError, "row 1: the header '.ud800' has half a surrogate pair"),
        ({"partition": "0"}, TypeError, "the partition '0' is no integer"),
        ({"keys": (key for key in [b"1", b"2"])}, TypeError, "the column 'keys' is of type generator: pass a list"),
    ],
)
async def test_bad_columns_are_refused_with_their_row(
    autojump_clock, producing: Producing, columns: dict[str, Any], error: type[Exception], text: str
) -> None:
    async with producing.producer() as producer:
        with pytest.raises(error, match=text):
            await producer.send_many("topic", [b"1", b"2"], **columns)
    assert producing.all_values() == []


async def test_a_serializer_that_fails_is_named(autojump_clock, producing: Producing) -> None:
    def fails(_content: Any) -> bytes:
        raise ZeroDivisionError("planted")

    async with producing.producer(value_serializer=fails) as producer:
        with pytest.raises(ZeroDivisionError) as caught:
            await producer.send("topic", {"paid": True})
        assert caught.value.__notes__ == ["value_serializer raised this for {'paid': True}"]


async def test_a_record_that_send_nowait_refuses_spoils_the_transaction(autojump_clock, producing: Producing) -> None:
    async with producing.producer(transactional_id="t") as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send("topic", b"kept")
        with pytest.raises(RecordTooLarge):
            producer.send_nowait("topic", b"x" * 2_000_000)
        with pytest.raises(TransactionAbortable, match="exceeds max_request_size"):
            await producer.commit_transaction()


async def test_records_without_acknowledgement_have_an_outcome_for_interceptors(producing: Producing) -> None:
    noting = Noting()
    async with producing.producer(interceptors=[noting], acks=0) as producer:
        for number in range(3):
            await producer.send("topic", b"%d" % number, partition=0)
        await producer.flush()
        assert [(metadata.offset, error) for metadata, error in noting.outcomes] == [(-1, None)] * 3


async def test_interceptors_see_the_rows_of_a_call_that_was_cancelled(producing: Producing) -> None:
    noting = Noting()
    async with producing.producer(interceptors=[noting], batch_size=200, buffer_memory=400) as producer:
        await producer.partitions_for("topic")
        producing.cluster.script(ApiKey.PRODUCE, delayed)
        with trio.move_on_after(0.1) as scope:
            await producer.send_many("topic", [b"%03d" % number for number in range(100)], partition=0)
        assert (scope.cancelled_caught, noting.outcomes) == (True, [])
        await producer.flush()
        [(result, error)] = noting.outcomes
        assert result is None
        assert {type(each) for each in error.errors.values()} == {AppendCancelled}
        assert [row for row in range(100) if row not in error.errors] == list(range(len(producing.values(0))))


async def test_an_interceptor_may_end_the_program(producing: Producing) -> None:
    class Ending:
        def on_acknowledgement(self, _metadata: Any, _error: Any) -> None:
            raise SystemExit(3)

    async def send_and_wait() -> None:
        async with producing.producer(interceptors=[Ending()]) as producer:
            await producer.send("topic", b"value", partition=0)
            await trio.sleep_forever()

    with pytest.raises(SystemExit, match="3"):
        await send_and_wait()
