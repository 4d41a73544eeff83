"""The codecs of declared messages: source code generated for one class and one version, compiled on first use.

All functions raise ValueError if the class does not have the version.
"""

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from wire.compile_decoder import compile_decoder, compile_stepwise_decoder
from wire.compile_encoder import compile_encoder, compile_stepwise_encoder
from wire.declare import Buffer, Message

M = TypeVar("M", bound=Message)


def decoder(cls: type[M], version: int) -> Callable[[Buffer, int, int], M]:
    """Return `decode(buf, pos, end) -> message`.

    `buf` may have bytes before `pos` and after `end`. Bytes between the message and `end` are ignored, as in Kafka,
    except in a metadata record, where they are an error. `decode` raises only DecodeError. Records may be memoryviews
    on `buf`; all other values are copies.
    """
    return compile_decoder(cls, version)


def stepwise_decoder(cls: type[M], version: int) -> Callable[[Buffer, int, int], Generator[None, None, M]]:
    """Return a decoder for long messages: a generator that yields after each array element.

    `buf` must not change until the generator ends.
    """
    return compile_stepwise_decoder(cls, version)


def encoder(cls: type[M], version: int) -> Callable[[M, list[Any]], None]:
    """Return `encode(message, out)`, which appends buffers to `out`. If it raises EncodeError, `out` is unchanged.

    Records and bytes are appended without a copy, and must not change until `out` is sent.
    """
    return compile_encoder(cls, version)


def stepwise_encoder(cls: type[M], version: int) -> Callable[[M, list[Any]], Generator[None]]:
    """Return an encoder for long messages: a generator that yields after each array element."""
    return compile_stepwise_encoder(cls, version)
