"""The table of rights: who is asked for what, and who is not asked at all."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from pykbroker.core.errors import ApiError
from pykbroker.core.security.authorizer import CLUSTER_NAME, DenyClusterAction, authorized_operations
from pykbroker.core.security.operation import SUPPORTED, Operation, ResourceType
from pykbroker.core.security.rights import (
    CREATE_TOPICS_TOPIC,
    FETCH_AS_FOLLOWER,
    INIT_PRODUCER_ID_IDEMPOTENT,
    LIST_GROUPS_GROUP,
    OFFSET_FOR_LEADER_EPOCH_TOPIC,
    PRODUCE_TOPIC,
    allowed,
    may,
    require,
)
from pykbroker.core.security.session import UNNAMED, Purpose, Session
from pykbroker.server.handler import Handler, RequestContext
from tests.unit.server.rig import SESSION
from wire.api import ApiKey
from wire.error_codes import ErrorCode


class Asked:
    """An authorizer that allows some operations on some names, and notes what it is asked."""

    def __init__(self, *granted: tuple[Operation, str]) -> None:
        self.granted, self.asked = granted, list[tuple[Operation, ResourceType, str]]()
        self.purposes: list[tuple[Purpose, int]] = []

    def allows(
        self,
        session: Session,
        operation: Operation,
        resource: ResourceType,
        name: str,
        purpose: Purpose = UNNAMED,
        count: int = 1,
    ) -> bool:
        self.asked.append((operation, resource, name))
        self.purposes.append((purpose, count))
        return (operation, name) in self.granted

    def allows_somewhere(
        self, session: Session, operation: Operation, resource: ResourceType, purpose: Purpose = UNNAMED
    ) -> bool:
        return self.allows(session, operation, resource, "anywhere", purpose)

    def basis(self, session: Session) -> None:
        raise NotImplementedError


def context(authorizer: Any = None) -> RequestContext:
    return RequestContext(0, "me", replace(SESSION, authorizer=authorizer))


def test_without_an_authorizer_the_names_themselves_are_returned() -> None:
    names = ["a", "b", "a"]
    assert allowed(context(), PRODUCE_TOPIC, names) is names
    assert may(context(), PRODUCE_TOPIC, "a")
    require(context(), PRODUCE_TOPIC, "a")


def test_each_name_is_asked_for_once_and_the_allowed_ones_keep_their_order() -> None:
    authorizer = Asked((Operation.WRITE, "c"), (Operation.WRITE, "a"))
    assert list(allowed(context(authorizer), PRODUCE_TOPIC, ["c", "b", "a", "c", "b"])) == ["c", "a"]
    assert authorizer.asked == [(Operation.WRITE, ResourceType.TOPIC, name) for name in "cba"]
    assert authorizer.purposes == [(Purpose(ApiKey.PRODUCE), count) for count in (2, 2, 1)]


def test_the_names_may_be_those_of_a_mapping() -> None:
    authorizer = Asked((Operation.WRITE, "a"))
    assert list(allowed(context(authorizer), PRODUCE_TOPIC, {"a": None, "b": None})) == ["a"]
    assert authorizer.purposes == [(Purpose(ApiKey.PRODUCE), 1)] * 2


def test_a_right_on_the_cluster_is_asked_for_once_and_stands_for_every_name() -> None:
    authorizer, names = Asked((Operation.CREATE, CLUSTER_NAME)), ["a", "b"]
    assert list(allowed(context(authorizer), CREATE_TOPICS_TOPIC, names)) == names
    assert authorizer.asked == [(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)]
    nobody = Asked((Operation.CREATE, "b"))
    assert list(allowed(context(nobody), CREATE_TOPICS_TOPIC, names)) == ["b"]
    assert [asked[1:] for asked in nobody.asked] == [
        (ResourceType.CLUSTER, CLUSTER_NAME),
        (ResourceType.TOPIC, "a"),
        (ResourceType.TOPIC, "b"),
    ]
    tried, refused = Purpose(ApiKey.CREATE_TOPICS, refuses=False), Purpose(ApiKey.CREATE_TOPICS)
    assert nobody.purposes == [(tried, 1), (refused, 1), (refused, 1)]


def test_the_authorizer_is_asked_once_in_a_request() -> None:
    authorizer = Asked((Operation.WRITE, "a"))
    request = context(authorizer)
    for _ in range(2):
        assert (may(request, PRODUCE_TOPIC, "a"), may(request, PRODUCE_TOPIC, "b")) == (True, False)
    assert [name for _, _, name in authorizer.asked] == ["a", "b"]


def test_a_handler_of_an_api_outside_of_the_table_cannot_be_defined() -> None:
    with pytest.raises(TypeError, match=r"no entry for SHARE_FETCH"):

        class ShareFetch(Handler):
            key = ApiKey.SHARE_FETCH


def test_what_a_filter_leaves_out_is_not_refused() -> None:
    authorizer = Asked()
    assert not allowed(context(authorizer), LIST_GROUPS_GROUP, ["g"])
    assert authorizer.purposes == [(Purpose(ApiKey.LIST_GROUPS, refuses=False), 1)] * 2


@pytest.mark.parametrize(
    ("right", "granted", "code"),
    [
        (OFFSET_FOR_LEADER_EPOCH_TOPIC, (), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (OFFSET_FOR_LEADER_EPOCH_TOPIC, ((Operation.CLUSTER_ACTION, CLUSTER_NAME),), None),
        (OFFSET_FOR_LEADER_EPOCH_TOPIC, ((Operation.DESCRIBE, "t"),), None),
        (INIT_PRODUCER_ID_IDEMPOTENT, (), ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (INIT_PRODUCER_ID_IDEMPOTENT, ((Operation.IDEMPOTENT_WRITE, CLUSTER_NAME),), None),
        (INIT_PRODUCER_ID_IDEMPOTENT, ((Operation.WRITE, "anywhere"),), None),
    ],
)
def test_one_of_several_needs_is_enough(right: Any, granted: tuple[Any, ...], code: ErrorCode | None) -> None:
    assert may(context(Asked(*granted)), right, "t") == (code is None)
    if code is None:
        require(context(Asked(*granted)), right, "t")
        return
    with pytest.raises(ApiError) as refusal:
        require(context(Asked(*granted)), right, "t")
    assert refusal.value.code is code


def test_clients_beside_a_listener_of_brokers_may_do_all_but_act_for_the_cluster() -> None:
    authorizer = DenyClusterAction()
    denied = {
        operation
        for operation in Operation
        if not authorizer.allows(SESSION, operation, ResourceType.CLUSTER, CLUSTER_NAME)
    }
    assert denied == {Operation.CLUSTER_ACTION}
    assert authorizer.allows_somewhere(SESSION, Operation.WRITE, ResourceType.TOPIC)
    rights = (FETCH_AS_FOLLOWER, OFFSET_FOR_LEADER_EPOCH_TOPIC, PRODUCE_TOPIC)
    assert [may(context(authorizer), right, "t") for right in rights] == [False, True, True]


@pytest.mark.parametrize("authorizer", [None, DenyClusterAction()])
def test_every_operation_is_listed_where_there_are_no_acls(authorizer: Any) -> None:
    session = replace(SESSION, authorizer=authorizer)
    found = authorized_operations(session, ApiKey.METADATA, ResourceType.CLUSTER, CLUSTER_NAME)
    assert found == sum(1 << operation for operation in SUPPORTED[ResourceType.CLUSTER])
