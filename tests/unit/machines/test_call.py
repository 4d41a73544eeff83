"""Tests of calls that several tasks wait for."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from pykbroker.core.errors import ApiError, KeysRequired
from pykbroker.machines.call import Call, refused
from wire.error_codes import ErrorCode


class Request:
    """A request that the frames of its handler refer to."""


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


async def test_several_tasks_may_wait_for_one_call() -> None:
    call, results = Call(), list[int]()

    async def wait() -> None:
        results.append(await call.wait())

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        call.settle(5)
    assert results == [5, 5, 5]


@pytest.mark.usefixtures("no_collector")
def test_a_refused_request_is_freed_at_once() -> None:
    def refuse(call: Call, request: Request) -> weakref.ref[Request]:
        try:
            raise ApiError(ErrorCode.INVALID_GROUP_ID, "refused by a state machine")
        except ApiError as error:
            call.settle(error)
        return weakref.ref(request)

    def handle() -> weakref.ref[Request]:
        call, request = Call(), Request()
        held = refuse(call, request)
        with pytest.raises(ApiError, match="refused by a state machine"):
            call.answer()
        return held

    assert handle()() is None


def test_each_result_of_a_refused_call_is_an_error_of_its_own() -> None:
    error = KeysRequired([1, 2], 3)
    call = refused(error)
    for _ in range(2):
        with pytest.raises(KeysRequired, match="3 records have no key") as raised:
            call.result()
        assert (raised.value.code, raised.value.indexes, raised.value.count) == (error.code, [1, 2], 3)
        assert raised.value is not error


def test_a_bug_of_a_state_machine_keeps_its_traceback() -> None:
    call = Call()
    try:
        raise KeyError("bug")
    except KeyError as bug:
        call.fail(bug)
    with pytest.raises(KeyError) as raised:
        call.result()
    assert "raise KeyError" in str(raised.traceback[-1].statement)
