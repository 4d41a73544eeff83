"""The two ways in which bytes and messages can be wrong, sorted by who must act."""


class DecodeError(ValueError):
    """The peer's, or the file's: bytes that do not parse. The only thing a decoder lets out."""


class EncodeError(ValueError):
    """The developer's: a value that this version of a message cannot carry."""
