"""The consumer: one shell that fetches and follows its group, and its faces for trio, threads and asyncio.

1. The shell fetches, looks up offsets and sends heartbeats in the background. What depends on the user's progress
   happens only while the user polls: commits, rebalances, and calls of the listener.
2. Records stay columns until the user asks for objects.
3. Everything of a consumer runs in one trio thread. The faces for threads and asyncio call into it.

The package must not know a broker of this process, or the producer.
"""

from pykbroker.client.arrow import arrow_table as arrow_table
from pykbroker.consumer.async_consumer import AsyncConsumer as AsyncConsumer
from pykbroker.consumer.consumer import Consumer as Consumer
from pykbroker.consumer.deserializing import RecordNotDeserialized as RecordNotDeserialized
from pykbroker.consumer.listener import RebalanceListener as RebalanceListener
from pykbroker.core.consumer.position import CommittedOffset as CommittedOffset
from pykbroker.core.consumer.records import ConsumerRecord as ConsumerRecord
from pykbroker.core.consumer.records import FetchedColumns as FetchedColumns
