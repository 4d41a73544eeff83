"""A real broker or cluster for users' tests: pytest's fixtures `kafka_broker` and `kafka_cluster`, or context managers.

1. The broker runs in a thread with a loop of its own, so a test may use any client, thread or loop. As a child process
   it has the same interface.
2. The broker listens on a port of 127.0.0.1, stores data in a temporary directory or in `data_dir`, and stops when its
   block ends.
3. In the user's process, the broker only raises a low limit of open files. It changes no signal handlers, no logging
   configuration and no garbage collector settings. Large modules are imported only when a broker is asked for.
4. The brokers of a cluster are always child processes, which a test may kill. Each has a directory of its own.
5. Requests of the fixture itself (`topic`, `clear`) go over the network, from a thread of their own: they work in any
   thread, beside any loop, and in a forked process.
"""

from pykbroker.testing.cluster import RunningCluster, running_cluster
from pykbroker.testing.running import RunningBroker, running_broker

__all__ = ["RunningBroker", "RunningCluster", "running_broker", "running_cluster"]
