"""The progress of the metadata log, for the fetches of observers that wait for it."""

from __future__ import annotations

import trio


class LogProgress:
    """An event for every append and every commit of the metadata log."""

    def __init__(self) -> None:
        self._waiting = trio.lowlevel.ParkingLot()

    def note(self) -> None:
        """Wake all tasks that wait for progress."""
        self._waiting.unpark_all()

    async def wait(self) -> None:
        """Wait for the next append or commit."""
        await self._waiting.park()
