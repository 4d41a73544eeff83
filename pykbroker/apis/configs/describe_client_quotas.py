"""DescribeClientQuotas (48), v0-1: return the quotas of users, client ids and addresses that match a filter (KIP-546).

v1 flexible
Each component of the filter names an entity type and matches a given name, the default entity, or any name. An entity
may have further types, unless the filter is strict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.steps import Steps
from pykbroker.server.handler import Answer, ApiHandler, Later, RequestContext
from wire.error_codes import ErrorCode
from wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from wire.stored.metadata_settings import ClientQuotaRecord

TYPES = ("user", "client-id", "ip")


class Match(IntEnum):
    """The match type of a filter component: a given name, the default entity, or any name."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


class DescribeClientQuotas(ApiHandler, frozen=True):
    """A handler that reads the metadata image and returns one entry for each entity, with all quotas of the entity."""

    image: Callable[[], MetadataImage]

    def __call__(self, context: RequestContext, request: DescribeClientQuotasRequest) -> Later:
        return Later(self._steps(request), holds_connection=True)

    def _steps(self, request: DescribeClientQuotasRequest) -> Steps[Answer]:
        check(request.components)
        entries: dict[tuple[tuple[str, str | None], ...], EntryData] = {}
        for record in self.image().records.of(ClientQuotaRecord):
            yield
            entity = {part.entity_type: part.entity_name for part in record.entity}
            if matches(entity, request.components, request.strict):
                parts = tuple(entity.items())
                entry = entries.setdefault(parts, EntryData([EntityData(*part) for part in parts], []))
                entry.values.append(ValueData(record.key, record.value))
        return DescribeClientQuotasResponse(entries=list(entries.values()))


def matches(entity: dict[str, str | None], components: Iterable[ComponentData], strict: bool) -> bool:
    """Whether every component of the filter matches the entity. With `strict`, the entity may have no other types."""
    wanted = {component.entity_type: component for component in components}
    if not wanted.keys() <= entity.keys() or (strict and len(wanted) < len(entity)):
        return False
    return all(
        component.match_type == Match.SPECIFIED or component.match == entity[kind] for kind, component in wanted.items()
    )


def check(components: Iterable[ComponentData]) -> None:
    """Raise ApiError if the filter is invalid."""
    seen: set[str] = set()
    for component in components:
        kind = component.entity_type
        if not kind:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in seen:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in TYPES:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        check_match(component)
        seen.add(kind)
    if "ip" in seen and len(seen) > 1:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. "
            "IP filter component should not be used with user or clientId filter component.",
        )


def check_match(component: ComponentData) -> None:
    """Raise ApiError if an exact match has no name, or if any other match type has one."""
    kind, name = component.match_type, component.match
    if kind not in tuple(Match):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown match type {kind}")
    if kind == Match.EXACT and name is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Request specified MATCH_TYPE_EXACT, but set match string to null.")
    if kind != Match.EXACT and name is not None:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Request specified MATCH_TYPE_{Match(kind).name}, but also specified a match string.",
        )
