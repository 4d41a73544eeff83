"""Record batches, format v2 (magic 2): the bytes that clients send, logs store and consumers read.

1. A batch is a view on bytes; nothing is copied until somebody asks for a record. Work is per batch.
2. Lengths and counts are claims of a peer: checked against the bytes that are left, or against a bound that the
   caller names. A decoder lets only DecodeError out, and holds little more than `bytes_max` decompressed bytes.
3. Base offset and leader epoch lie outside the CRC: a broker patches them in place and stores the rest as it came.
Offsets are absolute unless named `delta`; timestamps are ms since 1970, -1 for none; sizes are bytes.
Must not know: logs, topics, producer state, and what a broker accepts. Source: KIP-98, KIP-82, KIP-110, KIP-390.
"""
