"""The messages of AlterClientQuotas (API key 49), versions 0-1, flexible from version 1.

- Version 1 is flexible.
"""

from typing import Annotated

from wire.declare import Bool, Float64, Int16, Int32, Request, Response, Struct, V


class EntityData(Struct):
    entity_type: str = ""
    entity_name: Annotated[str | None, V(nullable="0+")] = ""


class OpData(Struct):
    key: str = ""
    value: Float64 = 0.0
    remove: Bool = False


class AlterClientQuotasRequestEntryData(Struct):
    entity: list[EntityData] = []
    ops: list[OpData] = []


class AlterClientQuotasRequest(Request["AlterClientQuotasResponse"]):
    entries: list[AlterClientQuotasRequestEntryData] = []
    validate_only: Bool = False


class AlterClientQuotasResponseEntryData(Struct):
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    entity: list[EntityData] = []


class AlterClientQuotasResponse(Response):
    throttle_time_ms: Int32 = 0
    entries: list[AlterClientQuotasResponseEntryData] = []
