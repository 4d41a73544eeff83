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
from pykbroker.core.security.rights import RIGHTS, WITHOUT_MESSAGE
from pykbroker.server.endpoints import BrokerEndpoints
from pykbroker.server.handler import Handler, RequestContext
from pykbroker.server.table import ApiTable
from tests.unit.apis.calling import Denies, context
from tests.unit.server.rig import SESSION, Api, NoTasks, Rig
from tests.unit.wire.distinct import distinct
from wire.api import ApiKey
from wire.apis import APIS
from wire.frame import LENGTH_BYTES, encode_request, encode_response
from wire.messages.describe_cluster import DescribeClusterRequest
from wire.refusal import refusal
from wire.versions import parse_versions


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
GUARDED = {right.api: right for rights in RIGHTS.values() for right in rights if right.first}


def versions(key: ApiKey) -> range:
    """Return the versions of an API that its handler serves."""
    served = parse_versions(HANDLERS[key].versions)
    return range(served.first, served.last + 1)


@pytest.mark.parametrize(
    ("key", "version"),
    [(key, version) for key in GUARDED for version in versions(key)],
    ids=lambda part: str(getattr(part, "name", part)),
)
def test_a_request_without_the_right_is_refused_as_a_whole(key: ApiKey, version: int) -> None:
    rig = Rig(NoTasks(), HANDLERS[key], session=replace(SESSION, authorizer=Denies(*operations(key))))
    request, code = distinct(APIS[key].request, version), GUARDED[key].code
    rig.feed(encode_request(request, version, 1, "me"))
    message = None if key in WITHOUT_MESSAGE else code.message
    assert rig.replies() == [encode_response(refusal(request, version, code, message), version, 1)[LENGTH_BYTES:]]


class Reached(Exception):
    pass


def operations(key: ApiKey) -> set[Operation]:
    """Return the operations of which one suffices."""
    return {need.operation for need in GUARDED[key].needs}


def reaching(context: RequestContext, request: Any) -> Any:
    raise Reached


@pytest.mark.parametrize("key", GUARDED, ids=lambda key: key.name)
def test_each_of_several_sufficient_rights_reaches_the_handler(key: ApiKey) -> None:
    every = operations(key)
    for denied in (None, *(Denies(*every - {granted}) for granted in every)):
        table = ApiTable([Api(key, HANDLERS[key].versions, reaching)])
        version = versions(key)[-1]
        handler = table[key << 16 | version].handler
        for call in (handler, handler.handle_large):
            with pytest.raises(Reached):
                call(context(version, denied), APIS[key].request())


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
