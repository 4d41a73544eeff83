"""The authorizer of a broker without ACLs where other brokers have a listener to themselves."""

from __future__ import annotations

from msgspec.structs import replace

from pykbroker.core.security.authorizer import CLUSTER_NAME, AllowBrokersByListener
from pykbroker.core.security.operation import Operation, ResourceType
from tests.unit.server.rig import SESSION

AUTHORIZER = AllowBrokersByListener("INTERNAL")


def test_only_cluster_action_depends_on_the_listener() -> None:
    for listener in ("INTERNAL", "internal", "PLAINTEXT", ""):
        session = replace(SESSION, listener=listener)
        denied = {
            operation
            for operation in Operation
            if not AUTHORIZER.allows(session, operation, ResourceType.CLUSTER, CLUSTER_NAME)
        }
        assert denied == (set() if listener == "INTERNAL" else {Operation.CLUSTER_ACTION})
        assert AUTHORIZER.allows_somewhere(session, Operation.WRITE, ResourceType.TOPIC)
