"""Notices to the controller about the connections of brokers. They have no response.

`ControllerMachine.handle` takes notices like requests, with the token None.
"""

from __future__ import annotations

import msgspec


class BrokerGone(msgspec.Struct, frozen=True):
    """The connection on which a broker sent its heartbeats has ended.

    Another process may register with the broker's id at once if it has locked the same log directories. `refused` says
    that a new connection to the broker was refused, so that its process no longer runs. It is then fenced at once. A
    connection that cannot be opened for another reason, such as a timeout, is not refused: the broker may be alive.
    """

    broker_id: int
    broker_epoch: int
    refused: bool = False
