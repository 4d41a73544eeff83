"""The search for the active controller: how long all known servers have refused connections."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from pykbroker.core.address import Address
from pykbroker.quorum.quorum_leader import QuorumLeader

ONE, TWO = Address("one", 9093), Address("two", 9093)
REFUSED, UNREACHABLE = ConnectionRefusedError(), TimeoutError()
LIMIT_S = 3.0


@pytest.mark.parametrize(
    ("failures", "over_at"),
    [
        ([(1, ONE, REFUSED), (1, TWO, REFUSED)], 1 + LIMIT_S),
        ([(0, ONE, REFUSED), (0, TWO, REFUSED), (2, ONE, REFUSED)], LIMIT_S),
        ([(1, ONE, REFUSED), (2, TWO, REFUSED)], 2 + LIMIT_S),
        ([(1, ONE, REFUSED)], None),
        ([(1, ONE, REFUSED), (1, TWO, UNREACHABLE)], None),
        ([(1, ONE, REFUSED), (1, TWO, REFUSED), (2, TWO, UNREACHABLE), (3, TWO, REFUSED)], 3 + LIMIT_S),
        ([(1, ONE, REFUSED), (1, TWO, REFUSED), (2, ONE, None)], None),
    ],
)
async def test_the_servers_refuse_once_all_of_them_have_for_long_enough(
    autojump_clock: trio.testing.MockClock,
    failures: list[tuple[float, Address, Exception | None]],
    over_at: float | None,
) -> None:
    leader, begun, found = QuorumLeader((ONE, TWO)), trio.current_time(), None

    async def fail() -> None:
        for time_s, address, failure in failures:
            await trio.sleep_until(begun + time_s)
            if failure is None:
                leader.found(1, 1, address)
            else:
                leader.note_failure(address, failure)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(fail)
        with trio.move_on_after(100):
            await leader.wait_refused(LIMIT_S)
            found = trio.current_time() - begun
    assert found == (None if over_at is None else pytest.approx(over_at))
