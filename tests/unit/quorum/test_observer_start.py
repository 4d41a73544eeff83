"""Tests of the search for the controller by a broker that has no cluster id yet."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from pykbroker.client.errors import HandshakeEnded
from pykbroker.client.security import PLAINTEXT
from pykbroker.core.address import Address
from pykbroker.core.errors import StartError
from pykbroker.quorum.observer_start import WARNING_AFTER_S, ask_cluster_id

Clock = trio.testing.MockClock
SERVERS = (Address("one", 9093), Address("two", 9093))


class DeadNet:
    """A network in which host `one` refuses connections, and host `two` never answers."""

    async def connect(self, host: str, port: int, *_: object) -> Any:
        if host == "one":
            raise ConnectionRefusedError(f"{host}:{port} refuses connections")
        await trio.sleep_forever()


@pytest.mark.parametrize(("s_max", "lines"), [(WARNING_AFTER_S, 0), (60, 1)])
async def test_a_start_without_a_controller_says_so_while_it_waits(
    autojump_clock: Clock, caplog: pytest.LogCaptureFixture, s_max: float, lines: int
) -> None:
    net: Any = DeadNet()
    with pytest.raises(StartError) as refused:
        await ask_cluster_id(net, SERVERS, s_max, PLAINTEXT)
    assert trio.current_time() == pytest.approx(s_max)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == lines
    for line in (*said, str(refused.value)):
        assert line.startswith("no controller responds at one:9093, two:9093 (one:9093 refuses connections; no answer")
    if said:
        assert said[0].endswith("trying for another 55 s")
    assert str(refused.value).endswith("start the controller, or correct controller.quorum.bootstrap.servers")


async def test_a_controller_that_ends_the_handshake_is_told_from_one_that_does_not_respond(
    autojump_clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    class Refusing(DeadNet):
        """A network in which host `one` is a listener without TLS."""

        async def connect(self, host: str, port: int, *_: object) -> Any:
            if host == "one":
                raise HandshakeEnded("one does not answer by TLS: correct the protocol")
            await super().connect(host, port)

    net: Any = Refusing()
    with pytest.raises(StartError) as refused:
        await ask_cluster_id(net, SERVERS, 60, PLAINTEXT)
    (line,) = caplog.messages
    sentence = "no controller at one:9093, two:9093 accepts this node: no answer within 5 s; one does not answer by TLS"
    assert str(refused.value) == f"{sentence}: correct the protocol"
    assert line.startswith(sentence)
