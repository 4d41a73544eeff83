"""Requests to a broker for tests, from any thread or process, with or without an event loop."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from typing import TypeAlias, TypeVar

import trio

from pykbroker.client.admin.admin import Admin
from pykbroker.client.admin.admin_session import with_admin
from pykbroker.client.errors import Disconnected
from pykbroker.core.address import Address, named
from pykbroker.testing.real_clock import RealClock

ANSWER_S_MAX = 30
CLIENT_ID = "pykbroker-testing"

T = TypeVar("T")
AdminWork: TypeAlias = Callable[[Admin], Awaitable[T]]


def ask(brokers: Sequence[Address], work: AdminWork[T], seconds: float = ANSWER_S_MAX) -> T:
    """Return what `work` returns for an admin client in a new thread, since this thread may be running an event loop.

    ConnectionError: the broker has stopped. TimeoutError: `work` has taken longer than `seconds`. Errors of `work` are
    raised as they are.
    """
    done: Future[T] = Future()
    threading.Thread(target=answer, args=(done, brokers, work, seconds), name="pykbroker-admin", daemon=True).start()
    return done.result()


def answer(done: Future[T], brokers: Sequence[Address], work: AdminWork[T], seconds: float) -> None:
    """Connect, run `work`, and pass its outcome to the waiting thread."""
    try:
        done.set_result(trio.run(within_time, brokers, work, seconds, clock=RealClock()))
    except (OSError, Disconnected) as error:
        reason = f"no broker listens on {named(brokers)} ({error}): `restart` starts it again"
        done.set_exception(error if isinstance(error, TimeoutError) else ConnectionError(reason))
    except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
        done.set_exception(error)


async def within_time(brokers: Sequence[Address], work: AdminWork[T], seconds: float) -> T:
    """Run `work` with a deadline."""
    with trio.move_on_after(seconds):
        return await with_admin(brokers, CLIENT_ID, work)
    raise TimeoutError(f"the broker on {named(brokers)} has not answered within {seconds:g} s")
