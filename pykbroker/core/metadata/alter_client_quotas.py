"""AlterClientQuotas: quotas of users, client ids and addresses, or of the default entity of each type (KIP-546).

Each quota is one record. Quotas are stored and described; this broker does not throttle clients.
"""

from __future__ import annotations

from ipaddress import ip_address
from math import isnan

from pykbroker.core.config.row import ConfigTable
from pykbroker.core.config.table import CLIENT_QUOTAS, INT_MAX, IP_QUOTAS
from pykbroker.core.config.type import Type
from pykbroker.core.errors import ApiError, bad_request
from pykbroker.core.metadata.context import ControllerContext, Deciding
from pykbroker.core.metadata.record import Record
from pykbroker.core.metadata.standing import quota_entity
from wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    EntityData,
)
from wire.stored import metadata_settings
from wire.stored.metadata_settings import ClientQuotaRecord

Entity = dict[str, str | None]
"""Entity names by type; None is the default entity."""

TYPES = ("client-id", "user", "ip")
"""Entity types in the order of Java's hash tables, which Kafka's records and messages have."""

EPSILON = 1e-6
"""Kafka's tolerance in the test of a whole number (`ClientQuotaControlManager`)."""


def alter_client_quotas(context: ControllerContext, request: AlterClientQuotasRequest) -> Deciding:
    """Return the metadata records and the response.

    Each entity is altered completely or not at all, and has one result.
    """
    records: list[Record] = []
    results: dict[object, AlterClientQuotasResponseEntryData] = {}
    for entry in request.entries:
        entity = {part.entity_type: part.entity_name for part in entry.entity}
        key = quota_entity(entity.items())
        result = AlterClientQuotasResponseEntryData(
            error_message=None, entity=[EntityData(kind, name) for kind, name in entity.items()]
        )
        try:
            if key in results or len({op.key for op in entry.ops}) < len(entry.ops):
                raise bad_request(f"Ignoring duplicate entity {entity_text(entity)}")
            records += _changes(context, entity, entry)
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
        results[key] = result
        yield
    return [] if request.validate_only else records, AlterClientQuotasResponse(entries=list(results.values()))


def _changes(context: ControllerContext, entity: Entity, entry: AlterClientQuotasRequestEntryData) -> list[Record]:
    allowed = _quotas_of(entity)
    parts = [metadata_settings.EntityData(kind, entity[kind]) for kind in TYPES if kind in entity]
    records: list[Record] = []
    for op in entry.ops:
        old = context.draft.records.get((ClientQuotaRecord.record_type, (quota_entity(entity.items()), op.key)))
        if op.remove:
            if old is not None:
                records.append(ClientQuotaRecord(entity=parts, key=op.key, remove=True))
            continue
        _check_value(allowed, op.key, op.value)
        record = ClientQuotaRecord(entity=parts, key=op.key, value=op.value)
        if old != record:
            records.append(record)
    return records


def _quotas_of(entity: Entity) -> ConfigTable:
    """Return the quotas that the entity can have. Raise ApiError if the entity is invalid."""
    if not entity:
        raise bad_request("Invalid empty client quota entity")
    for kind, name in entity.items():
        if kind not in TYPES:
            raise bad_request(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise bad_request(f"Empty {kind} not supported")
    if "ip" not in entity:
        return CLIENT_QUOTAS
    if len(entity) > 1:
        raise bad_request("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
    _check_address(entity["ip"])
    return IP_QUOTAS


def _check_address(address: str | None) -> None:
    """Raise ApiError unless the text is an IP address or localhost.

    Kafka resolves other names by DNS. This broker does not, since the address of a name may change later.
    """
    try:
        ip_address("::1" if address in (None, "localhost") else address)
    except ValueError:
        raise bad_request(f"{address} is not a valid IP or resolvable host.") from None


def _check_value(allowed: ConfigTable, key: str, value: float) -> None:
    """Raise ApiError if the value is outside Kafka's bounds.

    A whole number may be a millionth too large. NaN is accepted, as in Kafka.
    """
    if key not in allowed:
        raise bad_request(f"Invalid configuration key {key}")
    if value <= 0:
        raise bad_request(f"Quota {key} must be greater than 0")
    kind = allowed[key].type
    if kind is Type.DOUBLE or isnan(value):
        return
    if value > 2.0**63 or (kind is Type.INT and value > INT_MAX):
        raise bad_request(f"Proposed value for {key} is too large for {'an INT' if kind is Type.INT else 'a LONG'}.")
    if value % 1.0 > EPSILON:
        raise bad_request(f"{key} cannot be a fractional value.")


def entity_text(entity: Entity) -> str:
    """Return an entity as Kafka prints it."""
    parts = [f"{kind}={'null' if entity[kind] is None else entity[kind]}" for kind in TYPES if kind in entity]
    return f"ClientQuotaEntity(entries={{{', '.join(parts)}}})"
