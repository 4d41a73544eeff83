"""The commands `pykbroker produce` and `pykbroker consume`, and the formats of the records that they read and print.

1. `read_plan` and `read_range` decide what is read, `reader` reads it, and `record_formats` and `record_json` print it.
2. `pykbroker produce --json` reads the lines that `pykbroker consume --json` prints.
3. A command asks the cluster by the Kafka protocol, as the client of any Kafka broker.
"""
