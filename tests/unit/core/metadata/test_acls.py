"""Tests of CreateAcls and DeleteAcls. Codes and messages were observed on Kafka 4.3.1."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.context import RECORDS_MAX
from tests.unit.core.metadata.harness import ControllerHarness
from wire.error_codes import ErrorCode
from wire.messages.create_acls import AclCreation, CreateAclsRequest
from wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from wire.stored.metadata_security import AccessControlEntryRecord, RemoveAccessControlEntryRecord

ACL = AclCreation(2, "t", 3, "User:a", "*", 3, 3)
EVERY = DeleteAclsFilter(1, None, 1, None, None, 1, 1)


def create(harness: ControllerHarness, *acls: AclCreation) -> list[tuple[int, str | None]]:
    results = harness.ask(CreateAclsRequest(list(acls))).results
    return [(result.error_code, result.error_message) for result in results]


def acl(**fields: Any) -> AclCreation:
    return msgspec.structs.replace(ACL, **fields)


def invalid(message: str) -> tuple[int, str]:
    return ErrorCode.INVALID_REQUEST, message


NO_COLON = "(no colon is present separating the principal type from the principal name)"


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({"resource_type": 6, "resource_name": "token"}, (0, "")),
        ({"resource_type": 7, "resource_name": "User:x"}, (0, "")),
        ({"resource_type": 8}, invalid("Invalid resourceType UNKNOWN")),
        ({"resource_type": -1}, invalid("Invalid resourceType UNKNOWN")),
        ({"resource_pattern_type": 4, "resource_name": "*"}, (0, "")),
        ({"resource_pattern_type": 5}, invalid("Invalid patternType UNKNOWN")),
        ({"operation": 2}, (0, "")),
        ({"operation": 15}, (0, "")),
        ({"operation": 16}, invalid("Invalid operation UNKNOWN")),
        ({"permission_type": 2}, (0, "")),
        ({"permission_type": 4}, invalid("Invalid permissionType UNKNOWN")),
        ({"resource_name": ""}, invalid("Invalid empty resource name")),
        ({"resource_name": "a b/c"}, (0, "")),
        ({"principal": "alice"}, invalid(f"Could not parse principal from `alice` {NO_COLON}")),
        ({"principal": ""}, invalid(f"Could not parse principal from `` {NO_COLON}")),
        ({"principal": ":"}, (0, "")),
        ({"host": ""}, (0, "")),
        ({"host": "256.1.1.1"}, (0, "")),
        ({"resource_type": 4, "resource_name": "kafka-cluster"}, (0, "")),
        ({"resource_type": 4, "resource_name": "kafka-cluster", "resource_pattern_type": 4}, (0, "")),
        (
            {"resource_type": 4, "resource_name": "*", "resource_pattern_type": 9},
            invalid("The only valid name for the CLUSTER resource is kafka-cluster"),
        ),
    ],
)
def test_an_acl_is_validated_as_in_kafka(fields: dict[str, Any], outcome: tuple[int, str]) -> None:
    harness = ControllerHarness().bootstrap()
    assert create(harness, acl(**fields), ACL) == [outcome, (0, "")]
    assert len(harness.decided) == 1 + (outcome[0] == 0)


@pytest.mark.parametrize(
    "fields",
    [
        {"resource_type": 1},
        {"resource_pattern_type": 1},
        {"resource_pattern_type": 2},
        {"operation": 1},
        {"permission_type": 1},
    ],
)
def test_an_acl_with_a_number_of_filters_fails_the_request(fields: dict[str, Any]) -> None:
    harness = ControllerHarness().bootstrap()
    with pytest.raises(ApiError) as refused:
        create(harness, ACL, acl(**fields))
    assert (refused.value.code, refused.value.message) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)


def test_an_acl_that_exists_is_a_success_without_a_record() -> None:
    harness = ControllerHarness().bootstrap()
    assert create(harness, ACL, ACL, acl(host="h")) == [(0, "")] * 3
    ids = [record.id for record in harness.decided if isinstance(record, AccessControlEntryRecord)]
    assert len(set(ids)) == 2
    assert create(harness, ACL, acl(host="h")) == [(0, "")] * 2
    assert harness.decided == ()
    restarted = ControllerHarness(harness.freeze().image)
    assert create(restarted, ACL, acl(host="i")) == [(0, "")] * 2
    assert len(restarted.decided) == 1


def test_deletion_has_a_result_for_each_filter() -> None:
    harness = ControllerHarness().bootstrap()
    create(harness, acl(resource_name="u"), ACL, acl(host="h"))
    names = [(2, "t", 3), (2, "u", 3)]
    wanted = [
        msgspec.structs.replace(EVERY, host_filter="*"),
        msgspec.structs.replace(EVERY, resource_type_filter=99, operation=99),
        msgspec.structs.replace(EVERY, permission_type=99),
        msgspec.structs.replace(EVERY, resource_type_filter=4),
        msgspec.structs.replace(EVERY, host_filter="*", resource_name_filter="u"),
    ]
    results = harness.ask(DeleteAclsRequest(wanted)).filter_results
    assert [(result.error_code, result.error_message) for result in results] == [
        (0, None),
        invalid("Unknown patternFilter."),
        invalid("Unknown entryFilter."),
        (0, None),
        (0, None),
    ]
    found = [
        [(one.resource_type, one.resource_name, one.pattern_type) for one in result.matching_acls] for result in results
    ]
    assert found == [names, [], [], [], names[1:]]
    assert [type(record) for record in harness.decided] == [RemoveAccessControlEntryRecord] * 2
    (left,) = harness.freeze().image.acls.by_id.values()
    assert left.host == "h"
    assert harness.replayed().acls == harness.freeze().image.acls
    assert create(harness, ACL) == [(0, "")]
    assert len(harness.decided) == 1


def test_a_request_creates_and_deletes_at_most_the_records_of_one_batch() -> None:
    harness = ControllerHarness().bootstrap()
    many = [acl(host=str(index)) for index in range(RECORDS_MAX + 1)]
    with pytest.raises(ApiError) as refused:
        create(harness, *many)
    assert refused.value.code == ErrorCode.POLICY_VIOLATION
    create(harness, *many[1:])
    create(harness, many[0])
    too_many = invalid("Cannot remove more than 10000 acls in a single delete operation.")
    with pytest.raises(ApiError) as refused:
        harness.ask(DeleteAclsRequest([EVERY]))
    assert (refused.value.code, refused.value.message) == too_many
    harness.ask(DeleteAclsRequest([msgspec.structs.replace(EVERY, host_filter="0")]))
    with pytest.raises(ApiError) as refused:  # as in Kafka, which takes 6,000 ACLs that two filters match
        harness.ask(DeleteAclsRequest([EVERY, EVERY]))
    assert (refused.value.code, refused.value.message) == too_many
    (result,) = harness.ask(DeleteAclsRequest([EVERY])).filter_results
    assert (len(result.matching_acls), harness.freeze().image.acls.by_id) == (RECORDS_MAX, {})


def test_an_acl_under_two_ids_exists_until_both_are_removed() -> None:
    harness = ControllerHarness().bootstrap()
    records = [AccessControlEntryRecord(bytes(15) + bytes([index]), 2, "t", 3, "User:a", "*", 3, 3) for index in (1, 2)]
    harness.write(*records, records[0], RemoveAccessControlEntryRecord(id=records[0].id))
    create(harness, ACL)
    assert harness.decided == ()
    harness.write(RemoveAccessControlEntryRecord(id=records[1].id), RemoveAccessControlEntryRecord(id=records[1].id))
    create(harness, ACL)
    assert len(harness.decided) == 1
