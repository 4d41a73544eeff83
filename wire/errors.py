"""The errors of encoding and decoding.

Bytes of a peer or a file cause a DecodeError, and a bug of the caller causes an EncodeError.
"""


class DecodeError(ValueError):
    """An error for malformed bytes from a peer or a file. A decoder raises no other exception."""


class EncodeError(ValueError):
    """An error for a value that this version of a message cannot carry, which is a bug of the caller."""
