"""The messages of DescribeClientQuotas (API key 48), versions 0-1, flexible from version 1.

- Version 1 is flexible.
"""

from typing import Annotated

from wire.declare import Bool, Float64, Int8, Int16, Int32, Request, Response, Struct, V


class ComponentData(Struct):
    entity_type: str = ""
    match_type: Int8 = 0
    match: Annotated[str | None, V(nullable="0+")] = ""


class DescribeClientQuotasRequest(Request["DescribeClientQuotasResponse"]):
    components: list[ComponentData] = []
    strict: Bool = False


class EntityData(Struct):
    entity_type: str = ""
    entity_name: Annotated[str | None, V(nullable="0+")] = ""


class ValueData(Struct):
    key: str = ""
    value: Float64 = 0.0


class EntryData(Struct):
    entity: list[EntityData] = []
    values: list[ValueData] = []


class DescribeClientQuotasResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    entries: Annotated[list[EntryData] | None, V(nullable="0+")] = []
