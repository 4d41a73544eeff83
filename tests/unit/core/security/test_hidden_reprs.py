"""No repr of a value that has configs has a password."""

import pytest

from pykbroker.cli.cluster.plan import ClusterPlan
from pykbroker.cli.start.options import Options
from pykbroker.cli.start.server_properties import ServerProperties
from pykbroker.core.address import Address
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.environment import EnvironmentConfigs
from pykbroker.core.config.live_config import Dynamic
from pykbroker.core.metadata.image import ConfigsImage
from pykbroker.core.new_user import NewUser
from pykbroker.core.security.sasl.jaas import parse_jaas
from pykbroker.core.security.sasl.scram import ScramCredential
from pykbroker.core.security.secret import Secret
from pykbroker.pipeline.source.read_options import batch_options
from pykbroker.pipeline.source.write_options import WriteOptions
from pykbroker.producer.settings import producer_settings
from pykbroker.testing.cluster_options import ClusterOptions
from pykbroker.testing.log_in_settings import LogInSettings
from pykbroker.testing.options import BrokerOptions

NAME = "ssl.keystore.password"
TEXTS = {NAME: "CANARY"}
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SECURED = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.jaas.config": f'{MODULE} required username="a" password="CANARY";',
}


@pytest.mark.parametrize(
    "value",
    [
        BrokerConfig.from_mapping(TEXTS),
        ConfigsImage({(4, "1"): TEXTS}),
        Dynamic(TEXTS, TEXTS),
        EnvironmentConfigs(TEXTS, {NAME: "PYKBROKER_SSL_KEYSTORE_PASSWORD"}),
        BrokerOptions(configs=TEXTS, users={"a": "CANARY"}),
        ClusterOptions(1, BrokerOptions(configs=TEXTS, users={"a": "CANARY"})),
        ClusterPlan(1, 1, Address("h", 1), configs=tuple(TEXTS.items())),
        LogInSettings("h:1", None, {"a": "CANARY"}),
        NewUser("a", Secret("CANARY")),
        Options(configs=TEXTS, environ={"PASSWORD": "CANARY"}),
        ScramCredential(b"CANARY", b"CANARY", b"CANARY", 4096),
        Secret("CANARY"),
        ServerProperties("server.properties", TEXTS, {NAME: 1}),
        WriteOptions({"sasl_plain_password": "CANARY"}),
        batch_options({"subscribe": "a", "kafka.bootstrap.servers": "h:1", **SECURED}),
        producer_settings({"bootstrap_servers": "h:1", **{name[6:]: text for name, text in SECURED.items()}}),
        parse_jaas('org.apache.kafka.common.security.plain.PlainLoginModule required user_a="CANARY";'),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_repr_has_no_password(value: object) -> None:
    assert "CANARY" not in f"{value!r} {value} {[value]}"
