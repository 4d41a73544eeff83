"""What brokers agree on about one partition's log, as pure state: producers, transactions, leader epochs.

1. The log is the truth: every state here is rebuilt by giving it the log's batches in order.
2. A check comes before the write and changes nothing; what was written is then remembered, which cannot fail.
3. Offsets are absolute, timestamps ms since 1970; -1 stands for none, as in Kafka's own records.
Must not know: files, requests, connections, peers' addresses.
"""
