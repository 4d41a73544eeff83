"""The pure state of one partition's log: idempotent producers, transactions, leader epochs.

1. All state here can be rebuilt by replaying the log's batches in order. Verifications and refused sequences are
   exceptions, which a restart loses.
2. A batch is checked before it is written, which changes nothing. It is recorded after it is written, which cannot
   fail.
3. Offsets are absolute, timestamps are ms since 1970, and -1 means none, as in Kafka's records.
4. The package must not know requests.
"""
