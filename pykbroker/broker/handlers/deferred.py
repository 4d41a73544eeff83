"""The families of APIs that no start imports: the first request to one of a family's APIs does.

The deferred families have a tenth of a broker's modules. They would add 0.8 MB to an idle broker, which has 41 MB, and
20 ms to its start, which takes 300 ms. The families of records and topics are imported at the start: every client uses
them, and the first Produce would wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module

import msgspec

from pykbroker.broker.parts import Parts
from pykbroker.server.handler import Handler
from pykbroker.server.table import DeferredHandler
from wire.api import ApiKey


class ApiFamily(msgspec.Struct, frozen=True):
    """The APIs of one file of this package, and the function in it that returns their handlers."""

    file: str
    function: str
    keys: frozenset[ApiKey]

    def deferred(self, parts: Parts, *arguments: object, **options: object) -> list[Handler]:
        """Return handlers that import the file, and call the function with these arguments, at the first request."""

        @cache
        def family() -> Mapping[ApiKey, Handler]:
            build: Callable[..., list[Handler]] = getattr(import_module(f"{__package__}.{self.file}"), self.function)
            return {handler.key: handler for handler in build(parts, *arguments, **options)}

        return [DeferredHandler(key, family) for key in self.keys]


GROUPS = ApiFamily(
    "groups",
    "group_handlers",
    frozenset(
        {
            ApiKey.FIND_COORDINATOR,
            ApiKey.JOIN_GROUP,
            ApiKey.SYNC_GROUP,
            ApiKey.HEARTBEAT,
            ApiKey.LEAVE_GROUP,
            ApiKey.OFFSET_COMMIT,
            ApiKey.OFFSET_FETCH,
            ApiKey.OFFSET_DELETE,
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            ApiKey.LIST_GROUPS,
            ApiKey.DESCRIBE_GROUPS,
            ApiKey.DELETE_GROUPS,
        }
    ),
)
TRANSACTIONS = ApiFamily(
    "transactions",
    "transaction_handlers",
    frozenset(
        {
            ApiKey.INIT_PRODUCER_ID,
            ApiKey.ADD_PARTITIONS_TO_TXN,
            ApiKey.ADD_OFFSETS_TO_TXN,
            ApiKey.END_TXN,
            ApiKey.WRITE_TXN_MARKERS,
            ApiKey.TXN_OFFSET_COMMIT,
            ApiKey.DESCRIBE_TRANSACTIONS,
            ApiKey.LIST_TRANSACTIONS,
        }
    ),
)
CONFIGS = ApiFamily(
    "configs",
    "config_handlers",
    frozenset(
        {
            ApiKey.DESCRIBE_CONFIGS,
            ApiKey.ALTER_CONFIGS,
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            ApiKey.LIST_CONFIG_RESOURCES,
            ApiKey.DESCRIBE_CLIENT_QUOTAS,
            ApiKey.ALTER_CLIENT_QUOTAS,
            ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
            ApiKey.PUSH_TELEMETRY,
        }
    ),
)
CLUSTER = ApiFamily(
    "cluster",
    "cluster_handlers",
    frozenset(
        {
            ApiKey.ALTER_REPLICA_LOG_DIRS,
            ApiKey.DESCRIBE_LOG_DIRS,
            ApiKey.UPDATE_FEATURES,
            ApiKey.UNREGISTER_BROKER,
            ApiKey.DESCRIBE_CLUSTER,
        }
    ),
)
SECURITY = ApiFamily(
    "security",
    "security_handlers",
    frozenset(
        {
            ApiKey.DESCRIBE_ACLS,
            ApiKey.CREATE_ACLS,
            ApiKey.DELETE_ACLS,
            ApiKey.SASL_HANDSHAKE,
            ApiKey.SASL_AUTHENTICATE,
            ApiKey.CREATE_DELEGATION_TOKEN,
            ApiKey.RENEW_DELEGATION_TOKEN,
            ApiKey.EXPIRE_DELEGATION_TOKEN,
            ApiKey.DESCRIBE_DELEGATION_TOKEN,
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        }
    ),
)
