"""Log compaction as a pure machine: it keeps each key's newest record and what transactions and producers still need.

1. A record keeps its offset. Compaction deletes records without a key, and records that a newer record of the same key
   below the end of the round has replaced. Records above the last noted offset stay.
2. Records of aborted transactions are deleted at once and replace nothing. A marker stays while any batch of its
   transaction was in the log during this round.
3. Tombstones, and markers that are no longer needed, first get a delete horizon in their batch's header; a round after
   the horizon deletes them (KIP-534).
4. An emptied batch stays as a bare header if it holds a live producer's last sequence or epoch, or if it is the last
   batch of the round. Bytes go in and bytes come out: no files, and no clock other than `now_ms`. The machine runs in a
   process of its own.
"""
