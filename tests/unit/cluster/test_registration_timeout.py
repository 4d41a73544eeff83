"""A broker that no controller registers gives up after `initial.broker.registration.timeout.ms`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.image import EMPTY
from pykbroker.quorum.identity import BrokerIdentity
from pykbroker.quorum.lifecycle import HEARTBEAT_S, Lifecycle
from wire.error_codes import ErrorCode
from wire.messages.broker_registration import BrokerRegistrationResponse

Clock = trio.testing.MockClock
TIMEOUT_S = 3.0
EPOCH = 7


class RegisteringController:
    """A controller that refuses registrations with an error until `opens_at`. Without an error it does not respond."""

    def __init__(self, opens_at: float, refusal: ErrorCode | None) -> None:
        self.opens_at, self.refusal = opens_at, refusal

    async def ask(self, request: Any) -> Any:
        if self.refusal is None:
            await trio.sleep_until(self.opens_at)
        await trio.lowlevel.checkpoint()
        if trio.current_time() < self.opens_at:
            assert self.refusal is not None
            raise ApiError(self.refusal)
        return BrokerRegistrationResponse(broker_epoch=EPOCH)


async def register(opens_s: float, refusal: ErrorCode | None) -> int:
    """Return the epoch of a broker whose controller registers it after so many seconds."""
    controller: Any = RegisteringController(trio.current_time() + opens_s, refusal)
    images: Any = SimpleNamespace(committed=EMPTY, current=EMPTY)
    identity = BrokerIdentity("cluster", 1, (b"d" * 16,))
    lifecycle = Lifecycle(controller, images, identity, b"i" * 16, HEARTBEAT_S, None, TIMEOUT_S)
    return await lifecycle.register([], None, clean=True)


@pytest.mark.parametrize("refusal", [ErrorCode.DUPLICATE_BROKER_REGISTRATION, ErrorCode.REQUEST_TIMED_OUT, None])
async def test_a_registration_is_repeated_until_the_timeout(autojump_clock: Clock, refusal: ErrorCode | None) -> None:
    assert await register(TIMEOUT_S - 0.5, refusal) == EPOCH
    for later_s in (0.5, 1000):
        begun = trio.current_time()
        with pytest.raises(ApiError) as raised:
            await register(TIMEOUT_S + later_s, refusal)
        assert raised.value.code == (refusal or ErrorCode.REQUEST_TIMED_OUT)
        assert trio.current_time() - begun == pytest.approx(TIMEOUT_S)


async def test_a_registration_that_will_never_succeed_is_not_repeated(autojump_clock: Clock) -> None:
    begun = trio.current_time()
    with pytest.raises(ApiError) as raised:
        await register(TIMEOUT_S - 1, ErrorCode.INCONSISTENT_CLUSTER_ID)
    assert raised.value.code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert trio.current_time() == begun
