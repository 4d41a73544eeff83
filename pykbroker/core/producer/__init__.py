"""The pure half of the producer: which partition a record goes to, and how much memory its batches may take.

1. A record with a key goes to the partition that murmur2 selects, as in Kafka's own clients. Records without a key
   stay with one partition until `batch.size` bytes have gone to it (KIP-480). The next partition is drawn at random;
   the fewer batches wait for a partition, the more often it is drawn (KIP-794).
2. Memory is counted, not allocated: the encoder joins the records into a buffer of its own, so a pooled buffer would
   only add a copy. Callers that wait for memory are served in the order in which they came.

3. A batch keeps its records as columns and is encoded once, when it is sent. Thus the work for a record is a few list
   appends, and columns of records are appended in runs.

Nothing here waits, locks or reads a clock. The faces of the producer do.
"""
