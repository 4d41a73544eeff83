"""A real broker for tests of users, with pytest's fixture `kafka_broker` or without pytest.

1. The broker runs in a thread with a loop of its own, so a test may use any client, thread or loop.
2. It listens on a free port of 127.0.0.1, keeps nothing, and is gone when its block ends.
3. It is a guest in the user's process: no signal handler, no logging set up, no garbage collector settings, and nothing
   heavy imported before a broker is asked for.
"""

from pykbroker.testing.running import RunningBroker, running_broker

__all__ = ["RunningBroker", "running_broker"]
