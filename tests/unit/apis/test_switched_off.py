"""APIs of disabled security features: every version, compared with the responses of Apache Kafka 4.3.1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from pykbroker.apis.security.sasl_handshake import SaslHandshake
from pykbroker.server.handler import RequestContext
from pykbroker.server.strangers import SASL, Strangers
from tests.unit.apis.conftest import Client, LocalBroker
from tests.unit.server.rig import SESSION
from wire.api import ApiKey
from wire.apis import APIS
from wire.declare import Request, Response
from wire.error_codes import ErrorCode
from wire.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

DISABLED, NOT_ALLOWED = ErrorCode.SECURITY_DISABLED, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
ILLEGAL = ErrorCode.ILLEGAL_SASL_STATE
ANY_ACL = DeleteAclsFilter(
    resource_type_filter=1,
    resource_name_filter=None,
    pattern_type_filter=3,
    principal_filter=None,
    host_filter=None,
    operation=1,
    permission_type=1,
)
ACL = AclCreation(resource_type=2, resource_name="a", principal="User:b", host="*", operation=3, permission_type=3)
NO_AUTHORIZER = "No Authorizer is configured."

ANSWERS: list[tuple[Request[Any], Response]] = [
    (
        DescribeAclsRequest(resource_type_filter=1, operation=1, permission_type=1),
        DescribeAclsResponse(error_code=DISABLED, error_message="No Authorizer is configured on the broker"),
    ),
    (
        CreateAclsRequest(creations=[ACL, ACL]),
        CreateAclsResponse(results=[AclCreationResult(DISABLED, NO_AUTHORIZER)] * 2),
    ),
    (CreateAclsRequest(), CreateAclsResponse()),
    (
        DeleteAclsRequest(filters=[ANY_ACL, ANY_ACL]),
        DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(DISABLED, NO_AUTHORIZER)] * 2),
    ),
    (DeleteAclsRequest(), DeleteAclsResponse()),
    (SaslHandshakeRequest(mechanism="PLAIN"), SaslHandshakeResponse(error_code=ILLEGAL)),
    (
        SaslAuthenticateRequest(auth_bytes=b"\0a\0b"),
        SaslAuthenticateResponse(
            error_code=ILLEGAL, error_message="SaslAuthenticate request received after successful authentication"
        ),
    ),
    (
        RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=1),
        RenewDelegationTokenResponse(error_code=NOT_ALLOWED, expiry_timestamp_ms=-1),
    ),
    (
        ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=1),
        ExpireDelegationTokenResponse(error_code=NOT_ALLOWED, expiry_timestamp_ms=-1),
    ),
    (DescribeDelegationTokenRequest(owners=None), DescribeDelegationTokenResponse(error_code=NOT_ALLOWED)),
    (
        DescribeDelegationTokenRequest(owners=[DescribeDelegationTokenOwner("User", "b")]),
        DescribeDelegationTokenResponse(error_code=NOT_ALLOWED),
    ),
]


def every_version() -> Iterator[Any]:
    for request, response in ANSWERS:
        api = APIS[ApiKey(request.key)]
        assert api.advertised is not None
        for version in range(api.advertised.first, api.advertised.last + 1):
            yield pytest.param(version, request, response, id=f"{api.name}-{version}")


@pytest.mark.parametrize(("version", "request_", "response"), list(every_version()))
async def test_every_version_of_a_disabled_api_is_answered(
    client: Client, version: int, request_: Request[Any], response: Response
) -> None:
    assert await client.call(request_, version) == response
    assert (await client.fetch("a", 0)).error_code == 0  # The connection must still be usable.


async def test_a_client_that_asks_for_sasl_is_logged_once_with_the_setting_to_change(
    local_broker: LocalBroker, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):  # a client that is refused connects again
        await (await local_broker.connect()).call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    (line,) = [record.getMessage() for record in caplog.records if "SASL" in record.getMessage()]
    assert line.endswith(f" is no client of the listener PLAINTEXT: {SASL.format('PLAINTEXT')}")


@pytest.mark.parametrize(("tls", "protocol"), [(None, "PLAINTEXT"), (("TLSv1.3", "TLS_AES_128_GCM_SHA256"), "SSL")])
def test_a_client_that_asks_for_sasl_is_told_the_protocol_of_its_listener(
    tls: tuple[str, str] | None, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    context = RequestContext(1, "me", replace(SESSION, tls=tls))
    SaslHandshake(Strangers(lambda: 0))(context, SaslHandshakeRequest(mechanism="PLAIN"))
    (line,) = caplog.messages
    assert line.endswith(f"set security.protocol={protocol} in the client")


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("owner", ["", "b"])
async def test_the_refusal_of_a_delegation_token_request_names_the_owner(
    client: Client, version: int, owner: str
) -> None:
    request = CreateDelegationTokenRequest(renewers=[CreatableRenewers("User", "z")], max_lifetime_ms=-1)
    if version >= 3:
        request.owner_principal_type, request.owner_principal_name = "User" if owner else "", owner
    response: CreateDelegationTokenResponse = await client.call(request, version)
    assert (response.error_code, response.token_id, response.hmac) == (NOT_ALLOWED, "", b"")
    assert (response.principal_type, response.principal_name) == (
        "User",
        owner if owner and version >= 3 else "ANONYMOUS",
    )
    assert (response.token_requester_principal_type, response.token_requester_principal_name) == (
        ("User", "ANONYMOUS") if version >= 3 else ("", "")
    )
    assert {response.issue_timestamp_ms, response.expiry_timestamp_ms, response.max_timestamp_ms} == {-1}
