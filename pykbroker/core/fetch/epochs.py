"""The id and the epochs of fetch sessions, as clients, followers and leaders count them (KIP-227)."""

NO_SESSION = 0
"""The session id of a request that opens a session, and of a response without one."""
INITIAL_EPOCH, FINAL_EPOCH = 0, -1
"""The epochs of a request that opens a session, and of one that has none or ends it."""
EPOCH_MAX = 2**31 - 1


def next_epoch(epoch: int) -> int:
    """Return the epoch of the session's next request."""
    return epoch + 1 if epoch < EPOCH_MAX else 1
