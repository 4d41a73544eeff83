"""Rights on the cluster resource that are checked once per request, before the handler of its API is called."""

from __future__ import annotations

import inspect
import pkgutil
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pykbroker import apis
from pykbroker.apis.cluster.describe_cluster import DescribeCluster
from pykbroker.apis.controller_apis import CONTROLLER_APIS, ControllerHandler
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.security.operation import SUPPORTED, Operation, ResourceType
from pykbroker.core.security.rights import (
    ADD_PARTITIONS_TO_TXN_BROKER,
    DESCRIBE_CONTROLLERS,
    FETCH_METADATA_LOG,
    RIGHTS,
    Denial,
)
from pykbroker.core.security.session import Authorizer
from pykbroker.server.endpoints import BrokerEndpoints
from pykbroker.server.handler import Handler, RequestContext
from pykbroker.server.table import ApiTable
from tests.unit.apis.calling import Denies, context
from tests.unit.apis.refused_requests import REQUESTS
from tests.unit.server.rig import SESSION, Api, NoTasks, Rig
from wire.api import ApiKey
from wire.apis import APIS, response_header_version
from wire.declare import Request, Response
from wire.error_codes import ErrorCode
from wire.frame import decode_response, encode_request
from wire.messages.describe_cluster import DescribeClusterRequest
from wire.versions import parse_versions

REFUSALS = Path(__file__).parents[2] / "data" / "protocol" / "cluster_refusals.txt"
DEFAULT_MESSAGE = "Cluster authorization failed."
"""The default message of CLUSTER_AUTHORIZATION_FAILED.

Kafka sends it in some responses and null in others; tests/interop/test_refusals.py compares them.
"""


def handlers() -> dict[ApiKey, Handler]:
    """Return the handler of each API, without its dependencies."""
    modules = [import_module(module.name) for module in pkgutil.walk_packages(apis.__path__, f"{apis.__name__}.")]
    kinds: list[Any] = [
        kind
        for module in modules
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, Handler) and kind.__module__ == module.__name__ and kind is not ControllerHandler
    ]
    nothing: Any = None
    of_files = [kind(*[nothing] * len(inspect.signature(kind).parameters)) for kind in kinds]
    return {one.key: one for one in (*of_files, *(ControllerHandler(key, nothing) for key in CONTROLLER_APIS))}


HANDLERS = handlers()
GUARDED = {
    right.api: right
    for rights in RIGHTS.values()
    for right in rights
    if right.denial is Denial.WHOLE and right.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if right not in (FETCH_METADATA_LOG, DESCRIBE_CONTROLLERS)  # on listeners of controllers only
}
BROKERS_VERSION_FIRST = {ADD_PARTITIONS_TO_TXN_BROKER.api: 4}
"""The first version of an API whose older versions are for clients."""


def guarded_versions() -> list[tuple[ApiKey, int]]:
    """Return (API, version) for all versions of the APIs that authorize a request as a whole."""
    return [
        (key, version)
        for key in GUARDED
        for served in [parse_versions(HANDLERS[key].versions)]
        for version in range(BROKERS_VERSION_FIRST.get(key, served.first), served.last + 1)
    ]


def of_clients() -> list[tuple[ApiKey, int]]:
    """Return those of the guarded versions that a listener for clients serves."""
    return [(key, version) for key, version in guarded_versions() if APIS[key].advertised is not None]


def kafka_refusals() -> dict[tuple[ApiKey, int], bytes]:
    lines = [line.split() for line in REFUSALS.read_text().splitlines() if not line.startswith("#")]
    return {(ApiKey[name], int(version)): bytes.fromhex(body) for name, version, body in lines}


def answered(handler: Handler, authorizer: Authorizer, request: Request[Any], version: int) -> Response:
    """Return the response that a connection sends for the request."""
    rig = Rig(NoTasks(), handler, session=replace(SESSION, authorizer=authorizer))
    rig.feed(encode_request(request, version, 1, "me"))
    (frame,) = rig.replies()
    return decode_response(APIS[request.key].response, version, frame)[1]


def without_default_message(part: Any) -> Any:
    """Set error messages that equal the default message of their error code to null."""
    for name in getattr(part, "__struct_fields__", ()):
        value = getattr(part, name)
        if value == DEFAULT_MESSAGE:
            setattr(part, name, None)
        for inner in value if isinstance(value, list) else ():
            without_default_message(inner)
    return part


@pytest.mark.parametrize(("key", "version"), of_clients(), ids=lambda part: str(getattr(part, "name", part)))
def test_a_client_without_the_right_gets_kafkas_response(key: ApiKey, version: int) -> None:
    head = b"\0\0\0\1" + b"\0" * response_header_version(key, version)
    theirs = decode_response(APIS[key].response, version, head + kafka_refusals()[key, version])[1]
    denied = Denies(*operations(key))
    ours = answered(HANDLERS[key], denied, REQUESTS[key], version)
    assert without_default_message(ours) == without_default_message(theirs)


def test_every_version_of_a_refused_request_was_recorded_from_kafka() -> None:
    assert set(kafka_refusals()) == set(of_clients())


@pytest.mark.parametrize("key", [key for key in GUARDED if APIS[key].advertised is None], ids=lambda key: key.name)
def test_a_node_without_the_right_to_act_for_the_cluster_is_refused_by_a_controller(key: ApiKey) -> None:
    refused: Any = answered(HANDLERS[key], Denies(Operation.CLUSTER_ACTION), APIS[key].request(), last_version(key))
    assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def last_version(key: ApiKey) -> int:
    return parse_versions(HANDLERS[key].versions).last


class Reached(Exception):
    pass


def operations(key: ApiKey) -> set[Operation]:
    """Return the operations of which one suffices."""
    return {need.operation for need in GUARDED[key].needs}


def reaching(context: RequestContext, request: Any) -> Any:
    raise Reached


@pytest.mark.parametrize("key", [key for key, right in GUARDED.items() if right.first], ids=lambda key: key.name)
def test_each_of_several_sufficient_rights_reaches_the_handler(key: ApiKey) -> None:
    every = operations(key)
    for denied in (None, *(Denies(*every - {granted}) for granted in every)):
        table = ApiTable([Api(key, HANDLERS[key].versions, reaching)])
        version = parse_versions(HANDLERS[key].versions).last
        handler = table[key << 16 | version].handler
        for call in (handler, handler.handle_large):
            with pytest.raises(Reached):
                call(context(version, denied), REQUESTS.get(key) or APIS[key].request())


@pytest.mark.parametrize("denied", [[], [Operation.DESCRIBE], [Operation.ALTER]])
def test_describe_cluster_without_describe_omits_only_the_authorized_operations(denied: list[Operation]) -> None:
    endpoints = BrokerEndpoints(1, MetadataImage)
    api = DescribeCluster(1, "c", MetadataImage, endpoints)
    response: Any = api(context(2, Denies(*denied)), DescribeClusterRequest(include_cluster_authorized_operations=True))
    every = sum(1 << operation for operation in SUPPORTED[ResourceType.CLUSTER] if operation not in denied)
    expected = 0 if Operation.DESCRIBE in denied else every
    assert (response.error_code, response.cluster_id) == (0, "c")
    assert response.cluster_authorized_operations == expected


def test_handlers_take_the_errors_of_missing_rights_from_the_table() -> None:
    root = Path(apis.__file__).parent
    found = [path for path in root.rglob("*.py") if re.search(r"ErrorCode\.\w*AUTHORIZATION_FAILED", path.read_text())]
    # a transactional batch in a request without a transactional id, of which no right is asked
    assert [str(path.relative_to(root)) for path in found] == ["records/produce/admit.py"]
