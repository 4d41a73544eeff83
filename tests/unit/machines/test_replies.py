"""Tests of replies whose records are not committed in time."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from pykbroker.core.errors import ApiError
from pykbroker.machines.call import Call
from pykbroker.machines.replies import Replies
from wire.error_codes import ErrorCode

ROUNDED = 0.13436424411240122
"""A time in seconds that is no longer itself after 5 s are added and subtracted."""


class NeverCommits:
    def is_committed(self, _offset: int) -> bool:
        return False


async def test_the_task_that_refuses_late_callers_rests_after_it(autojump_clock: trio.testing.MockClock) -> None:
    assert ROUNDED + 5.0 - 5.0 < ROUNDED
    replies = Replies(NeverCommits(), Call.settle, 5.0, ErrorCode.COORDINATOR_NOT_AVAILABLE)  # type: ignore[arg-type]
    began_s, call = trio.current_time(), Call()
    autojump_clock.jump(ROUNDED - began_s)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(replies.expire)
        replies.add(call, None, 1)
        with pytest.raises(ApiError) as refused:
            await call.wait()
        assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await trio.testing.wait_all_tasks_blocked()
        assert trio.current_time() == ROUNDED + 5.0
        nursery.cancel_scope.cancel()
