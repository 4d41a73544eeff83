"""A producer of one record at a time over plain sockets, which follows the leader of its partition by Metadata.

It is the client that loses the least time when a leader dies: it asks again at once, and needs no rounds of a loop.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from tools.bench import cluster_requests, frames
from wire.frame import decode_response
from wire.messages.produce import ProduceResponse

PRODUCE_VERSION = 8
REQUEST_S_MAX = 2
PAUSE_S = 0.005
"""The pause before a record that was not acknowledged is sent again."""


class RawProducer:
    """A producer for partition 0 of a topic. `ports` has the port of each broker by its id."""

    def __init__(self, ports: Sequence[int], topic: str, value: bytes) -> None:
        self._ports, self._topic = list(ports), topic
        self._frame = frames.produce(topic, 0, frames.batch(value))
        self._caller: frames.Caller | None = None

    def produce(self) -> None:
        """Send one record with acks=all until it is acknowledged."""
        while True:
            try:
                if self._caller is None:
                    self._caller = self._connect()
                if self._caller is not None and not self._error(self._caller.call(self._frame)):
                    return
            except OSError:
                pass
            self.close()
            time.sleep(PAUSE_S)

    @staticmethod
    def _error(frame: bytes) -> int:
        response = decode_response(ProduceResponse, PRODUCE_VERSION, frame)[1]
        return response.responses[0].partition_responses[0].error_code

    def _connect(self) -> frames.Caller | None:
        """Return a connection to the leader that the first broker that answers names, or None if there is none."""
        for port in self._ports:
            found = cluster_requests.metadata(port, self._topic)
            if found is not None and found.topics[0].partitions:
                leader = found.topics[0].partitions[0].leader_id
                address = next((one for one in found.brokers if one.node_id == leader), None)
                if address is not None:
                    return frames.Caller(address.port, REQUEST_S_MAX)
        return None

    def close(self) -> None:
        """Close the connection; the next record looks for the leader."""
        if self._caller is not None:
            self._caller.close()
            self._caller = None
