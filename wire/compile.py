"""The codecs of declared messages: source text written for one class and one version, compiled on first use.

A version that the class does not have is a ValueError.
"""

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from wire.compile_decoder import compile_decoder, compile_stepwise_decoder
from wire.compile_encoder import compile_encoder, compile_stepwise_encoder
from wire.declare import Buffer, Message

M = TypeVar("M", bound=Message)


def decoder(cls: type[M], version: int) -> Callable[[Buffer, int, int], M]:
    """`decode(buf, pos, end) -> message`.

    `buf` may hold more than `pos` to `end`, and bytes between the message and `end` are ignored as Kafka does (in a
    metadata record they are an error). Only DecodeError gets out. Records may be views on `buf`; nothing else is.
    """
    return compile_decoder(cls, version)


def stepwise_decoder(cls: type[M], version: int) -> Callable[[Buffer, int, int], Generator[None, None, M]]:
    """As `decoder`, of a message that may be long: it yields after each element of an array. `buf` must not change."""
    return compile_stepwise_decoder(cls, version)


def encoder(cls: type[M], version: int) -> Callable[[M, list[Any]], None]:
    """`encode(message, out)`, which appends buffers to `out`; after an EncodeError `out` is as it was.

    Records and bytes are appended as they are, and must stay unchanged until `out` is sent.
    """
    return compile_encoder(cls, version)


def stepwise_encoder(cls: type[M], version: int) -> Callable[[M, list[Any]], Generator[None]]:
    """As `encoder`, of a message that may be long: it yields after each element of an array."""
    return compile_stepwise_encoder(cls, version)
