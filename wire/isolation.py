"""The values of `isolation_level` in Fetch and ListOffsets (KIP-98)."""

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
