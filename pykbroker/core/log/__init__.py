"""The pure state of one partition's log: idempotent producers, transactions, leader epochs.

1. The log is the truth: all state here can be rebuilt by replaying the log's batches in order.
2. A check comes before the write and changes nothing. After the write the batch is recorded, which cannot fail.
3. Offsets are absolute, timestamps are ms since 1970, and -1 stands for none, as in Kafka's records.
Must not know: files, requests, connections, peers' addresses.
"""
