"""The producer: one shell that sends batches, and its faces for trio, threads and asyncio.

1. A call appends its record to a batch at once, in the thread of the caller. It waits only for unknown metadata and for
   memory, at most `max.block.ms`.
2. The shell asks the pure sender after each event which requests are due, and sends them without a task of their own.
3. The faces share the pure half of the producer under one lock. They wake the shell when a batch is opened, not for
   each record.

The package must not know a broker of this process.
"""

from typing import TYPE_CHECKING, Any

from pykbroker.core.producer.record import ProducerRecord as ProducerRecord
from pykbroker.producer.delivery import ColumnsDelivery as ColumnsDelivery
from pykbroker.producer.delivery import ColumnsResult as ColumnsResult
from pykbroker.producer.delivery import Delivery as Delivery
from pykbroker.producer.delivery import RecordMetadata as RecordMetadata
from pykbroker.producer.delivery import RowsFailed as RowsFailed
from pykbroker.producer.producer import Producer as Producer

if TYPE_CHECKING:
    from pykbroker.producer.async_producer import AsyncProducer as AsyncProducer


def __getattr__(name: str) -> Any:
    """Import AsyncProducer at its first use, because only its users need asyncio."""
    if name == "AsyncProducer":
        from pykbroker.producer.async_producer import AsyncProducer

        return AsyncProducer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
