"""Log compaction as a pure state machine: it keeps each key's newest record, and what transactions and producers need.

1. A record keeps its offset. Compaction reads a part of the log, up to the end of the round, and notes the newest
   offset of each key. It deletes records without a key and records that a newer record of the same key has replaced.
   Records above the last noted offset stay.
2. Records of aborted transactions are deleted at once and replace nothing. A transaction marker stays while the log has
   a batch of its transaction.
3. Tombstones, and markers that are no longer needed, first get a delete horizon in their batch's header. A round after
   that time deletes them (KIP-534).
4. An emptied batch stays as a bare header if it has a live producer's last sequence or epoch, or if it is the last
   batch of the round.
5. Input and output are bytes. The package runs in a process of its own.
"""
