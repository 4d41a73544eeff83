"""Producer ids, from blocks that the controller allocates.

The controller commits a block to the metadata log before its first id is used. No id is used twice, even after a
restart.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from pykbroker.core.errors import ApiError
from pykbroker.quorum.active_controller import ActiveController
from pykbroker.quorum.ongoing import OngoingWork
from wire.error_codes import ErrorCode, error_code
from wire.messages.allocate_producer_ids import AllocateProducerIdsRequest


class ProducerIds:
    """The current block of producer ids of this broker. `broker_epoch` returns the broker's current epoch."""

    def __init__(
        self, controller: ActiveController, node_id: int, broker_epoch: Callable[[], int], ongoing: OngoingWork
    ) -> None:
        self._controller, self._node_id, self._broker_epoch = controller, node_id, broker_epoch
        self._ongoing = ongoing
        self._block = range(0)

    @property
    def in_hand(self) -> bool:
        """Whether `next_nowait` would return an id."""
        return bool(self._block)

    def next_nowait(self) -> int | None:
        """Return the next id, or None if a new block must be allocated first. The allocation then begins.

        The caller may be a timer, which has no request that could wait and ask again.
        """
        if not self._block:
            with suppress(ApiError):  # too much work is going on: the next call begins the allocation
                self._ongoing.begin(ProducerIds, self._allocate)
            return None
        producer_id, self._block = self._block[0], self._block[1:]
        return producer_id

    async def next(self) -> int:
        """Return the next id, from a new block if needed.

        Raise ApiError COORDINATOR_LOAD_IN_PROGRESS if the controller fails.
        """
        while (producer_id := self.next_nowait()) is None:
            await self.refill()
        return producer_id

    async def refill(self) -> None:
        """Allocate a new block if the last one is used up.

        Raise ApiError COORDINATOR_LOAD_IN_PROGRESS, after which all clients retry, if the controller fails, or if it
        does not respond within `ongoing.WAIT_S_MAX`. The allocation then goes on for the next caller.
        """
        if self._block:
            return
        try:
            await self._ongoing.result(ProducerIds, self._allocate)
        except ApiError as error:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) from error

    async def _allocate(self) -> None:
        request = AllocateProducerIdsRequest(broker_id=self._node_id, broker_epoch=self._broker_epoch())
        response = await self._controller.ask(request)
        if response.error_code:
            raise ApiError(error_code(response.error_code))
        first = response.producer_id_start
        self._block = range(first, first + response.producer_id_len)
