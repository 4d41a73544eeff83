"""The commands of `pykbroker bench`: the throughput and the latencies of this client with any Kafka broker.

1. `bench consume` reads the range of records that `pykbroker consume` would, by the code in `cli/records`.
2. A measurement has a result also if a signal ends it early.
"""
