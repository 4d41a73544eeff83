"""What compaction keeps of a log: of each key the newest record, of transactions and producers what is still needed.

1. A record keeps its offset. Goes what a newer record of the same key below the end of the round has replaced, and what
   has no key; records above the last offset that was noted stay.
2. Records of aborted transactions go at once and replace nothing. A marker stays while any batch of its transaction
   was there in this round.
3. Tombstones and markers that are needed no more get a delete horizon in their batch's header when they are first
   seen, and go in a round after it (KIP-534).
4. A batch that emptied stays as a bare header where it holds a live producer's last sequence or epoch, and at the
   very end of the round.
Pure: bytes in, bytes out; nothing of files, and no clock but `now_ms`. It runs in a process of its own.
"""
