"""Record batches, format v2 (magic 2): the bytes that clients send, logs store and consumers read.

1. A batch is a view on bytes, which are not copied until a record is read. Work is done once per batch where possible.
2. Lengths and counts are untrusted: they are checked against the bytes that are left, or against a limit that the
   caller sets. A decoder raises only DecodeError, and uses little more memory than `bytes_max` decompressed bytes.
3. Base offset and leader epoch are outside the CRC: a broker patches them in place and stores the other bytes
   unchanged.
4. The package must not know messages.

Offsets are absolute unless they are named `delta`. Timestamps are in ms since 1970, or -1. Sizes are in bytes. Source:
KIP-98, KIP-82, KIP-110, KIP-390.
"""
