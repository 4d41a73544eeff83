"""The assignors of kafka-python, under the names of its modules.

1. The members of groups are in `pykbroker.consumer`. Nothing here takes part in a rebalance.
"""
