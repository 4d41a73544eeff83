"""The brokers that Metadata responses still list after they were fenced."""

from __future__ import annotations

from pykbroker.core.metadata.image import BrokerImage
from pykbroker.server.departures import LISTED_S, Departures

ID = b"i" * 16


def broker(broker_id: int, *, fenced: bool = False, stopping: bool = False) -> BrokerImage:
    return BrokerImage(
        id=broker_id,
        incarnation_id=ID,
        endpoints=(),
        features={},
        epoch=1,
        fenced=fenced,
        in_controlled_shutdown=stopping,
    )


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_broker_that_is_fenced_stays_listed_for_a_while() -> None:
    clock = Clock()
    departures = Departures(clock)
    departures.note({1: broker(1), 2: broker(2), 3: broker(3, fenced=True)})
    assert not departures
    fenced = {1: broker(1), 2: broker(2, fenced=True), 3: broker(3, fenced=True)}
    departures.note(fenced)
    assert (2 in departures, 3 in departures) == (True, False)
    clock.now_s += LISTED_S - 1
    departures.note(fenced)
    assert 2 in departures
    clock.now_s += 1
    departures.note(fenced)
    assert not departures


def test_a_broker_that_stops_in_order_stays_listed_until_it_returns() -> None:
    departures = Departures(Clock())
    departures.note({1: broker(1), 2: broker(2, stopping=True)})
    assert not departures
    departures.note({1: broker(1), 2: broker(2, fenced=True, stopping=True)})
    assert 2 in departures
    departures.note({1: broker(1), 2: broker(2, fenced=True)})  # its next process has registered
    assert 2 in departures
    departures.note({1: broker(1), 2: broker(2)})
    assert not departures


def test_a_broker_that_is_no_longer_registered_is_not_listed() -> None:
    departures = Departures(Clock())
    departures.note({1: broker(1), 2: broker(2)})
    departures.note({1: broker(1)})
    assert not departures
