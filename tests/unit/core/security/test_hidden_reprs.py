"""No repr of a value that has configs has a password."""

import pytest

from pykbroker.cli.start.options import Options
from pykbroker.cli.start.server_properties import ServerProperties
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.environment import EnvironmentConfigs
from pykbroker.core.config.live_config import Dynamic
from pykbroker.core.metadata.image import ConfigsImage
from pykbroker.core.security.sasl.jaas import parse_jaas
from pykbroker.core.security.sasl.scram import ScramCredential
from pykbroker.core.security.secret import Secret

NAME = "ssl.keystore.password"
TEXTS = {NAME: "CANARY"}


@pytest.mark.parametrize(
    "value",
    [
        BrokerConfig.from_mapping(TEXTS),
        ConfigsImage({(4, "1"): TEXTS}),
        Dynamic(TEXTS, TEXTS),
        EnvironmentConfigs(TEXTS, {NAME: "PYKBROKER_SSL_KEYSTORE_PASSWORD"}),
        Options(configs=TEXTS, environ={"PASSWORD": "CANARY"}),
        ScramCredential(b"CANARY", b"CANARY", b"CANARY", 4096),
        Secret("CANARY"),
        ServerProperties("server.properties", TEXTS, {NAME: 1}),
        parse_jaas('org.apache.kafka.common.security.plain.PlainLoginModule required user_a="CANARY";'),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_repr_has_no_password(value: object) -> None:
    assert "CANARY" not in f"{value!r} {value} {[value]}"
