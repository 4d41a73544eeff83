"""A real broker for users' tests, as pytest's fixture `kafka_broker` or without pytest.

1. The broker runs in a thread with a loop of its own, so a test may use any client, thread or loop.
2. It listens on a free port of 127.0.0.1, stores data in a temporary directory, and stops when its block ends.
3. It changes nothing else in the user's process: no signal handlers, no logging configuration, no garbage collector
   settings. Large modules are imported only when a broker is asked for.
"""

from pykbroker.testing.running import RunningBroker, running_broker

__all__ = ["RunningBroker", "running_broker"]
