"""A real broker for users' tests, as pytest's fixture `kafka_broker` or without pytest.

1. The broker runs in a thread with a loop of its own, so a test may use any client, thread or loop. As a child process
   it has the same interface.
2. It listens on a port of 127.0.0.1, stores data in a temporary directory or in `data_dir`, and stops when its block
   ends.
3. It changes nothing else in the user's process: no signal handlers, no logging configuration, no garbage collector
   settings. Large modules are imported only when a broker is asked for.
4. Requests of the fixture itself (`topic`, `clear`) go over the network, from a thread of their own: they work in any
   thread, beside any loop, and in a forked process.
"""

from pykbroker.testing.running import RunningBroker, running_broker

__all__ = ["RunningBroker", "running_broker"]
