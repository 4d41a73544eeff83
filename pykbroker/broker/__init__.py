"""The composition root: builds the parts of a broker from the doors of a world, joins them, and owns the one nursery.

1. A start goes from the ground up. The address is bound first: a port in use is reported before a file changes.
   Directories, metadata log and controller follow, then partitions and registration. Clients connect last.
2. A stop goes the other way round. A log directory is marked as cleanly closed only after all of its logs are.
3. One task applies committed metadata to the parts, always in the same order.
4. Parts do not know each other: what one needs of another is a Protocol or a function that it is given here.
"""

from pykbroker.broker.observer import BrokerObserver
from pykbroker.broker.serving import serve
from pykbroker.broker.statistics import BrokerStatistics

__all__ = ["BrokerObserver", "BrokerStatistics", "serve"]
