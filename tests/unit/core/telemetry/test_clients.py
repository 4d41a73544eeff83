"""Tests of telemetry clients: how often they may request subscriptions and push metrics, as in Apache Kafka 4.3.1."""

from __future__ import annotations

import pytest

from pykbroker.core.config.resource import ConfigResource
from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.image import ConfigsImage
from pykbroker.core.telemetry import clients as clients_module
from pykbroker.core.telemetry.clients import TelemetryClient, TelemetryClients
from pykbroker.core.telemetry.subscriptions import properties, requested_metrics, subscriptions
from wire.error_codes import ErrorCode

A, B = b"a" * 16, b"b" * 16
MINUTES_5 = 300_000
EARLY, UNKNOWN = ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.UNKNOWN_SUBSCRIPTION_ID


def configs(**named: dict[str, str]) -> ConfigsImage:
    return ConfigsImage({(ConfigResource.CLIENT_METRICS, name): texts for name, texts in named.items()})


def fresh(found: ConfigsImage | None = None) -> TelemetryClient:
    return TelemetryClients().client(A, properties(A, "x", "127.0.0.1", 1000), found or ConfigsImage())


def asked(client: TelemetryClient, now_ms: float) -> ErrorCode:
    try:
        client.ask(now_ms)
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


def pushed(client: TelemetryClient, now_ms: float, wrong: int = 0, *, terminating: bool = False) -> ErrorCode:
    try:
        client.push(client.requested.id + wrong, now_ms, terminating=terminating)
    except ApiError as error:
        client.last_error = error.code
        return error.code
    return ErrorCode.NONE


def test_a_client_may_request_subscriptions_once_per_interval():
    client = fresh()
    assert [asked(client, at) for at in (0, 1, MINUTES_5 - 1, MINUTES_5, MINUTES_5 + 1)] == [0, EARLY, EARLY, 0, EARLY]


def test_a_client_may_push_once_per_interval_after_it_has_requested_subscriptions():
    client = fresh()
    assert asked(client, 0) == 0
    assert [pushed(client, at) for at in (0, 1, MINUTES_5 - 1, MINUTES_5)] == [0, EARLY, EARLY, 0]
    assert asked(client, MINUTES_5 + 1) == EARLY


def test_a_client_may_request_subscriptions_early_after_unknown_subscription_id():
    client = fresh()
    assert pushed(client, 0, wrong=1) == UNKNOWN
    assert asked(client, 1) == 0
    assert [pushed(client, 2), pushed(client, 3), asked(client, 4)] == [EARLY, EARLY, EARLY]


@pytest.mark.parametrize("wrong", [0, 1])
def test_a_client_may_push_once_with_the_terminating_flag_at_any_time(wrong: int):
    client = fresh()
    assert [asked(client, 0), pushed(client, 1)] == [0, 0]
    assert pushed(client, 2, wrong, terminating=True) == (UNKNOWN if wrong else 0)
    assert pushed(client, 3, terminating=True) == pushed(client, 4) == ErrorCode.INVALID_REQUEST


def test_only_a_change_of_subscriptions_gives_clients_a_new_subscription_id():
    known, who = TelemetryClients(), properties(A, "x", "127.0.0.1", 1000)
    first = known.client(A, who, ConfigsImage())
    unlike = ConfigsImage({(ConfigResource.TOPIC, "t"): {"retention.ms": "1"}})
    assert known.client(A, who, unlike) is first
    other = known.client(A, who, configs(one={"metrics": "m."}))
    assert other is not first
    assert (other.requested.metrics, other.requested.id == first.requested.id) == (("m.",), False)


def test_the_least_recently_seen_client_is_forgotten(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(clients_module, "CLIENTS_MAX", 2)
    known, who, image = TelemetryClients(), properties(A, None, "::1", 1), ConfigsImage()
    first, second = (known.client(one, who, image) for one in (A, B))
    assert known.client(A, who, image) is first
    known.client(b"c" * 16, who, image)
    assert known.client(A, who, image) is first
    assert known.client(B, who, image) is not second


def test_a_client_gets_the_union_of_its_matching_subscriptions():
    found = configs(
        every={"metrics": "a.,b.", "interval.ms": "5000"},
        other={"metrics": "*", "match": "client_id=y"},
        named={"metrics": "b.,c.", "interval.ms": "60000", "match": "client_id=x"},
        both={"metrics": "two", "match": "client_id=x, client_source_address=1.*"},
        not_both={"metrics": "no", "match": "client_id=x,client_source_address=2.*"},
        part={"metrics": "no", "match": "client_source_address=127"},
        port={"metrics": "port", "match": "client_source_port=[0-9]*"},
        instance={"metrics": "instance", "match": "client_instance_id=[A-Za-z0-9_-]{22}"},
        software={"metrics": "software", "match": "client_software_name=unknown"},
        often={"interval.ms": "100"},
    )
    what = fresh(found).requested
    assert set(what.metrics) == {"a.", "b.", "c.", "two", "port", "instance", "software"}
    assert what.interval_ms == 100


def test_a_star_in_a_subscription_stands_for_all_metrics():
    assert fresh(configs(some={"metrics": "a."}, every={"metrics": "*"})).requested.metrics == ("*",)


def test_a_client_without_a_subscription_asks_again_every_five_minutes():
    what = fresh().requested
    assert (what.metrics, what.interval_ms) == ((), MINUTES_5)
    ids = {requested_metrics(one, properties(one, "x", "h", 1), subscriptions(ConfigsImage())).id for one in (A, B)}
    assert len(ids) == 2
    assert all(-(2**31) <= one < 2**31 for one in ids)
