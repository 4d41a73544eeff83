"""Errors of encoding and decoding, by who must act."""


class DecodeError(ValueError):
    """Malformed bytes from a peer or a file. A decoder raises no other exception."""


class EncodeError(ValueError):
    """A value that this version of a message cannot carry: a defect of the caller."""
