"""The settings of a client: Kafka's names with underscores, checked when the client is made.

A name may also be written with dots, as in Kafka's documentation. Numbers may be text, as on a command line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from math import inf
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from pykbroker.client.metadata import MetadataSettings
from pykbroker.client.node import NodeSettings
from pykbroker.client.security import PLAINTEXT
from pykbroker.client.security_settings import InvalidSetting as InvalidSetting
from pykbroker.client.security_settings import client_security, split_security
from pykbroker.core.address import Address, parse_address

DEFAULT_PORT = 9092
INT32_MAX = 0x7FFF_FFFF

Ms = Annotated[int, Meta(ge=0, le=INT32_MAX)]
Bytes = Annotated[int, Meta(ge=1, le=INT32_MAX)]
AnyBytes = Annotated[int, Meta(ge=0, le=INT32_MAX)]
S = TypeVar("S", bound="ClientSettings")


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings that producers and consumers share, with Kafka's defaults."""

    bootstrap_servers: str | Sequence[str]
    client_id: str = "pykbroker"
    request_timeout_ms: Ms = 30_000
    metadata_max_age_ms: Ms = 300_000
    metadata_recovery_strategy: Literal["none", "rebootstrap"] = "rebootstrap"
    metadata_recovery_rebootstrap_trigger_ms: Ms = 300_000
    retry_backoff_ms: Ms = 100
    retry_backoff_max_ms: Ms = 1000
    reconnect_backoff_ms: Ms = 50
    reconnect_backoff_max_ms: Ms = 1000
    connections_max_idle_ms: Annotated[int, Meta(ge=-1)] = 540_000
    socket_connection_setup_timeout_ms: Ms = 10_000
    socket_connection_setup_timeout_max_ms: Ms = 30_000
    receive_message_max_bytes: Bytes = 100_000_000
    allow_auto_create_topics: bool = True
    security: Any = PLAINTEXT
    """The `ClientSecurity` of the settings of TLS and SASL."""

    def addresses(self) -> list[Address]:
        """Return the bootstrap servers. The default port is 9092."""
        servers = self.bootstrap_servers
        texts = servers.split(",") if isinstance(servers, str) else servers
        found = [server_address(text.strip()) for text in texts if text.strip()]
        if not found:
            raise InvalidSetting("bootstrap_servers names no broker: pass HOST:PORT, or several separated by commas")
        return found


def server_address(text: str) -> Address:
    """Return the address of a bootstrap server, HOST or HOST:PORT."""
    try:
        return parse_address(text if ":" in text.rpartition("]")[2] else f"{text}:{DEFAULT_PORT}")
    except ValueError as error:
        raise InvalidSetting(f"bootstrap_servers: {error}") from None


def settings(cls: type[S], given: Mapping[str, Any]) -> S:
    """Return the settings of a client. Raise InvalidSetting, which names the setting and what is allowed."""
    secured, named = split_security({name.replace(".", "_"): value for name, value in given.items()})
    known = {field.name for field in msgspec.structs.fields(cls)} - {"security"}
    for name in named:
        if name not in known:
            near = get_close_matches(name, known, 1)
            raise InvalidSetting(f"there is no setting '{name}'" + (f": do you mean '{near[0]}'?" if near else ""))
    if "bootstrap_servers" not in named:
        raise InvalidSetting("bootstrap_servers is missing: pass HOST:PORT of a broker")
    try:
        found = msgspec.convert(named, cls, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidSetting(explained(cls, error, named)) from None
    found.addresses()
    return msgspec.structs.replace(found, security=client_security(secured)) if secured else found


def check_function(name: str, value: object) -> None:
    """Raise InvalidSetting unless a setting is a function or None."""
    if value is not None and not callable(value):
        raise InvalidSetting(f"{name}={value!r} is not allowed: pass a function")


def check_interceptors(interceptors: Sequence[Any], methods: Sequence[str]) -> None:
    """Raise InvalidSetting for an interceptor that has none of the methods."""
    for each in interceptors:
        if not any(hasattr(each, method) for method in methods):
            raise InvalidSetting(
                f"interceptors: {each!r} is no interceptor: pass an object with a method {' or '.join(methods)}"
            )


def explained(cls: type[ClientSettings], error: msgspec.ValidationError, given: Mapping[str, Any]) -> str:
    """Return the text of an error, with the name and the value of its setting first."""
    text, _, place = str(error).partition(" - at `$.")
    name = place.rstrip("`")
    if name not in given:
        return str(error)
    if text.startswith("Invalid enum value"):
        return f"{name}={given[name]!r} is not allowed: use {', '.join(map(repr, choices(get_type_hints(cls)[name])))}"
    return f"{name}={given[name]!r} is not allowed: {text[:1].lower()}{text[1:]}"


def choices(hint: Any) -> list[Any]:
    """Return the values that a Literal type allows, or a union of such types."""
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    return [value for part in get_args(hint) for value in choices(part)]


def node_settings(settings: ClientSettings, in_flight_max: int) -> NodeSettings:
    """Return the settings of the connections. `in_flight_max` is the limit of requests in flight to a broker."""
    return NodeSettings(
        client_id=settings.client_id,
        in_flight_max=in_flight_max,
        request_timeout_ms=settings.request_timeout_ms,
        reconnect_backoff_ms=settings.reconnect_backoff_ms,
        reconnect_backoff_ms_max=settings.reconnect_backoff_max_ms,
        setup_timeout_ms=settings.socket_connection_setup_timeout_ms,
        setup_timeout_ms_max=settings.socket_connection_setup_timeout_max_ms,
        idle_ms_max=inf if settings.connections_max_idle_ms < 0 else settings.connections_max_idle_ms,
        response_bytes_max=settings.receive_message_max_bytes,
        security=settings.security,
    )


def metadata_settings(settings: ClientSettings, idle_ms_max: float = inf) -> MetadataSettings:
    """Return the settings of the metadata. A topic that is not used for `idle_ms_max` is dropped from it."""
    return MetadataSettings(
        bootstrap=tuple((host, port) for host, port in settings.addresses()),
        age_ms_max=settings.metadata_max_age_ms,
        idle_ms_max=idle_ms_max,
        retry_backoff_ms=settings.retry_backoff_ms,
        retry_backoff_ms_max=settings.retry_backoff_max_ms,
        allow_auto_create=settings.allow_auto_create_topics,
        rebootstraps=settings.metadata_recovery_strategy == "rebootstrap",
        rebootstrap_trigger_ms=settings.metadata_recovery_rebootstrap_trigger_ms,
    )
