"""Declarations of messages: one class for all versions, with the properties of each field in its annotation.

    class TopicProduceData(Struct):
        name: Annotated[str, V("0-12", ignorable=True)] = ""
        topic_id: Annotated[UUID, V("13+", ignorable=True)] = NIL
        partition_data: list[PartitionProduceData] = []

The order of the fields is their order on the wire. A field without `V` exists in every version. Versions are written
as in Kafka: "3+", "3-13", "7" or "none".
"""

import typing
from functools import cache
from typing import Annotated, Any, ClassVar, Generic, TypeVar

import msgspec

from wire.api import KEYS, VERSIONS, ApiKey

Buffer = bytes | bytearray | memoryview

REQUEST_ELEMENTS_MAX = 250_000  # the maximum number of array elements and tagged fields in one request
TRUSTED_ELEMENTS_MAX = 10_000_000  # the same limit for one response or stored message
STRING_BYTES_MAX = 32_767


class V:
    """The versions in which a field exists and may be null, and its tag if it is a tagged field.

    If `ignorable` is true, a value that the encoded version lacks is dropped; otherwise only the default can be
    encoded. If `sensitive` is true, the value is or may be a secret, such as a password, and appears in no repr.
    """

    __slots__ = ("ignorable", "nullable", "sensitive", "tag", "versions")

    def __init__(
        self,
        versions: str = "0+",
        *,
        nullable: str = "none",
        tag: int | None = None,
        ignorable: bool = False,
        sensitive: bool = False,
    ) -> None:
        self.versions, self.nullable, self.tag, self.ignorable = versions, nullable, tag, ignorable
        self.sensitive = sensitive


class Fixed(msgspec.Struct, frozen=True):
    """An annotation for a fixed-size type: its code in the `struct` module and its size in bytes."""

    code: str
    size: int


class RecordBytes:
    """An annotation for a field of record batches. Codecs do not copy such fields."""


Bool = Annotated[bool, Fixed("?", 1)]
Int8 = Annotated[int, Fixed("b", 1)]
Int16 = Annotated[int, Fixed("h", 2)]
UInt16 = Annotated[int, Fixed("H", 2)]
Int32 = Annotated[int, Fixed("i", 4)]
UInt32 = Annotated[int, Fixed("I", 4)]
Int64 = Annotated[int, Fixed("q", 8)]
Float64 = Annotated[float, Fixed("d", 8)]
UUID = Annotated[bytes, Fixed("16s", 16)]
Records = Annotated[Buffer | None, RecordBytes()]
AnyRecords = Annotated[Any, RecordBytes()]
"""Record bytes, or any object with a length that the sender of the buffers supports, such as a slice of a file."""

SecretBytes = Annotated[bytes, V(sensitive=True)]

NIL = bytes(16)
"""The UUID of zeros, which stands for no UUID."""


HIDDEN = "[hidden]"
"""The text in place of a sensitive value, as in Kafka."""


@cache
def sensitive_fields(cls: type[msgspec.Struct]) -> frozenset[str]:
    """Return the names of the sensitive fields of a declared class."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return frozenset(
        name
        for name in cls.__struct_fields__
        if any(isinstance(mark, V) and mark.sensitive for mark in getattr(hints[name], "__metadata__", ()))
    )


class Struct(msgspec.Struct, gc=False):
    """A message or a part of a message. Each instance gets its own copy of a default list."""

    def __repr__(self) -> str:
        hidden = sensitive_fields(type(self))
        values = ((name, HIDDEN if name in hidden else repr(getattr(self, name))) for name in self.__struct_fields__)
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in values)})"


class FrozenStruct(msgspec.Struct, gc=False, frozen=True):
    """A part of a message that is the default of a field. It is immutable, because all messages share one instance."""


class Message(Struct):
    """A message. `versions` and `flexible` are ranges of versions in Kafka's notation, such as "3-13" and "9+"."""

    versions: ClassVar[str]
    flexible: ClassVar[str]
    elements_max: ClassVar[int] = REQUEST_ELEMENTS_MAX


Rsp_co = TypeVar("Rsp_co", covariant=True)
"""A type variable for the class of a response."""


class ApiMessage(Message):
    """The body of a request or of a response of an API, whose name begins the name of the class.

    The class has the key and the versions of its API in `wire.api`, if it has no others.
    """

    key: ClassVar[ApiKey]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        key = KEYS.get(cls.__name__.removesuffix("Request").removesuffix("Response"))
        if key is not None:
            cls.key = key
            if not hasattr(cls, "versions"):
                cls.versions, cls.flexible = VERSIONS[key]


class Request(ApiMessage, Generic[Rsp_co]):
    """The body of a request. A subclass names the class of its response."""


class Response(ApiMessage):
    """The body of a response."""

    elements_max: ClassVar[int] = TRUSTED_ELEMENTS_MAX


class StoredPart(Struct, kw_only=True):
    """A part of a message that is stored in a log. Unknown tagged fields are kept and written back."""

    unknown_tags: dict[int, bytes] = {}


class Stored(StoredPart, Message):
    """A message that is stored in a log or inside another message.

    If `exact` is true, bytes after the end of the message are an error.
    """

    elements_max: ClassVar[int] = TRUSTED_ELEMENTS_MAX
    exact: ClassVar[bool] = False
