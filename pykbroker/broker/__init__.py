"""The composition root: it builds the parts of a broker on a `World`, joins them, and runs their tasks.

1. A start binds the listeners first, so that a port in use is reported before a file changes. It then opens
   directories, metadata log, controller and partitions, and registers the broker. Clients can connect last.
2. A stop happens in the opposite order. A log directory is marked as cleanly shut down only after all of its logs are
   closed.
3. One task applies committed metadata to the parts, always in the same order.
4. Parts do not import each other. A part declares what it needs of another as a Protocol or a function, which it
   receives here.
"""

from pykbroker.broker.observer import BrokerObserver
from pykbroker.broker.serving import serve
from pykbroker.broker.statistics import BrokerHealth, BrokerStatistics

__all__ = ["BrokerHealth", "BrokerObserver", "BrokerStatistics", "serve"]
