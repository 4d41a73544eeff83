"""Rights on the cluster resource that are checked once per request, before the handler of its API is called."""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from pykbroker import apis
from pykbroker.apis.cluster.describe_cluster import DescribeCluster
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.security.authorizer import Authorizer
from pykbroker.core.security.operation import SUPPORTED, Operation, ResourceType
from pykbroker.core.security.permissions import PERMISSIONS
from pykbroker.server.endpoints import BrokerEndpoints
from pykbroker.server.handler import Handler, RequestContext
from pykbroker.server.table import ApiTable
from tests.unit.apis.calling import Denies, context
from tests.unit.apis.refused_requests import REQUESTS
from tests.unit.server.rig import Api, NoTasks, Rig
from wire.api import APIS, ApiKey, response_header_version
from wire.declare import Request, Response
from wire.error_codes import ErrorCode
from wire.frame import decode_response, encode_request
from wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from wire.messages.describe_cluster import DescribeClusterRequest
from wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from wire.versions import parse_versions

REFUSALS = Path(__file__).parents[2] / "data" / "protocol" / "cluster_refusals.txt"
DEFAULT_MESSAGE = "Cluster authorization failed."
"""The default message of CLUSTER_AUTHORIZATION_FAILED.

Kafka sends it in some responses and null in others; clients show the same text for both.
"""


def handlers() -> dict[ApiKey, type[Handler]]:
    """Return the handler class of each API."""
    modules = [import_module(module.name) for module in pkgutil.walk_packages(apis.__path__, f"{apis.__name__}.")]
    return {
        kind.key: kind
        for module in modules
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, Handler) and kind.__module__ == module.__name__
    }


HANDLERS = handlers()
GUARDED = {key: permission.whole for key, permission in PERMISSIONS.items() if permission.whole is not None}


def guarded_versions() -> list[tuple[ApiKey, int]]:
    """Return (API, version) for all versions of the APIs that authorize a request as a whole."""
    return [
        (key, version)
        for key, right in GUARDED.items()
        for served in [parse_versions(HANDLERS[key].versions)]
        for version in range(max(served.first, right.version_first), served.last + 1)
    ]


def of_clients() -> list[tuple[ApiKey, int]]:
    """Return those of the guarded versions that a listener for clients serves."""
    return [(key, version) for key, version in guarded_versions() if APIS[key].advertised is not None]


def kafka_refusals() -> dict[tuple[ApiKey, int], bytes]:
    lines = [line.split() for line in REFUSALS.read_text().splitlines() if not line.startswith("#")]
    return {(ApiKey[name], int(version)): bytes.fromhex(body) for name, version, body in lines}


def unconnected(key: ApiKey) -> Handler:
    """Return the handler of an API without its dependencies; any call but `refuse` fails."""
    kind: Any = HANDLERS[key]
    handler: Handler = kind(*[None] * len(inspect.signature(kind).parameters))
    return handler


def answered(handler: Handler, authorizer: Authorizer, request: Request[Any], version: int) -> Response:
    """Return the response that a connection sends for the request."""
    rig = Rig(NoTasks(), handler, authorizer=authorizer)
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
    right = GUARDED[key]
    denied = Denies(*right.operations, *(right.or_anywhere or ())[:1])
    assert answered(unconnected(key), denied, REQUESTS[key], version) == without_default_message(theirs)


def test_every_version_of_a_refused_request_was_recorded_from_kafka() -> None:
    assert set(kafka_refusals()) == set(of_clients())


@pytest.mark.parametrize("key", [key for key in GUARDED if APIS[key].advertised is None], ids=lambda key: key.name)
def test_a_node_without_the_right_to_act_for_the_cluster_is_refused_by_a_controller(key: ApiKey) -> None:
    refused: Any = answered(unconnected(key), Denies(Operation.CLUSTER_ACTION), APIS[key].request(), last_version(key))
    assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def last_version(key: ApiKey) -> int:
    return parse_versions(HANDLERS[key].versions).last


class Reached(Exception):
    pass


def reaching(context: RequestContext, request: Any) -> Any:
    raise Reached


@pytest.mark.parametrize("key", GUARDED, ids=lambda key: key.name)
def test_each_of_several_sufficient_rights_reaches_the_handler(key: ApiKey) -> None:
    right = GUARDED[key]
    every = {*right.operations, *(right.or_anywhere or ())[:1]}
    for granted in every:
        table = ApiTable([Api(key, HANDLERS[key].versions, reaching)], Denies(*every - {granted}))
        version = parse_versions(HANDLERS[key].versions).last
        handler = table[key << 16 | version].handler
        for call in (handler, handler.handle_large):
            with pytest.raises(Reached):
                call(context(version), REQUESTS.get(key) or APIS[key].request())


@pytest.mark.parametrize("key", HANDLERS, ids=lambda key: key.name)
def test_requests_are_not_checked_if_no_authorizer_is_configured(key: ApiKey) -> None:
    handler = Api(key, HANDLERS[key].versions, reaching)
    versions = parse_versions(handler.versions)
    for authorizer in (None, Denies()):
        table = ApiTable([handler], authorizer)
        for version in range(versions.first, versions.last + 1):
            guarded = authorizer is not None and (key, version) in guarded_versions()
            assert (table[key << 16 | version].handler is handler) is not guarded


def test_a_transactional_producer_needs_no_right_on_the_cluster() -> None:
    api = Api(ApiKey.INIT_PRODUCER_ID, "0-5", lambda context, request: InitProducerIdResponse(producer_id=7))
    nothing = Denies(*Operation)
    assert answered(api, nothing, InitProducerIdRequest(transactional_id="t"), 5) == InitProducerIdResponse(
        producer_id=7
    )


def test_a_client_adds_partitions_without_a_right_on_the_cluster() -> None:
    api = Api(ApiKey.ADD_PARTITIONS_TO_TXN, "0-5", lambda context, request: AddPartitionsToTxnResponse(7))
    assert answered(api, Denies(*Operation), AddPartitionsToTxnRequest(), 3) == AddPartitionsToTxnResponse(7)


@pytest.mark.parametrize("denied", [[], [Operation.DESCRIBE], [Operation.ALTER]])
def test_describe_cluster_without_describe_omits_only_the_authorized_operations(denied: list[Operation]) -> None:
    endpoints = BrokerEndpoints(1, MetadataImage)
    api = DescribeCluster(1, "c", MetadataImage, endpoints, Denies(*denied))
    response: Any = api(context(2), DescribeClusterRequest(include_cluster_authorized_operations=True))
    every = sum(1 << operation for operation in SUPPORTED[ResourceType.CLUSTER] if operation not in denied)
    expected = 0 if Operation.DESCRIBE in denied else every
    assert (response.error_code, response.cluster_id) == (0, "c")
    assert response.cluster_authorized_operations == expected


def test_no_handler_returns_cluster_authorization_failed_itself_but_that_of_the_metadata_log() -> None:
    root = Path(apis.__file__).parent
    found = [path for path in root.rglob("*.py") if "CLUSTER_AUTHORIZATION_FAILED" in path.read_text()]
    assert [str(path.relative_to(root)) for path in found] == ["raft/fetch.py"]
