"""Errors of encoding and decoding. A peer or a file causes a DecodeError, a defect of the caller an EncodeError."""


class DecodeError(ValueError):
    """An error for malformed bytes from a peer or a file. A decoder raises no other exception."""


class EncodeError(ValueError):
    """An error for a value that this version of a message cannot carry: a defect of the caller."""
