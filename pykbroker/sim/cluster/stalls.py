"""The delay of a host's answers, which all faults of followers and leaders use."""

from __future__ import annotations

import trio

from pykbroker.sim.network import Network


def stall(network: Network, host: str, port: int, peer: str, seconds: float) -> None:
    """Delay what a host sends to a peer on the current connections of its `port`. Nothing is lost."""
    for end in network.ends(host, port, peer):
        end.stall(trio.current_time() + seconds)
