"""The request for a producer id, which any broker answers for a producer without transactions."""

from __future__ import annotations

import logging

import trio

from pykbroker.client.errors import AuthenticationError, Disconnected, UnsupportedVersion
from pykbroker.client.nodes import Nodes
from pykbroker.client.settings import INT32_MAX
from pykbroker.core.backoff import Uniform, delay_ms
from pykbroker.core.errors import ApiError
from pykbroker.core.producer.sequences import ProducerIdentity
from pykbroker.producer.settings import ProducerSettings
from wire.error_codes import ErrorCode, error_code
from wire.messages.init_producer_id import InitProducerIdRequest

log = logging.getLogger("pykbroker.producer")


async def request_identity(nodes: Nodes, settings: ProducerSettings, uniform: Uniform) -> ProducerIdentity:
    """Ask the least loaded broker for a producer id, again and again until one is assigned.

    Raise ApiError or AuthenticationError if a broker refuses, and no further attempt would change that.
    """
    failures = 0
    while True:
        node = nodes.least_loaded()
        try:
            if node is None:
                nodes.check_refusal()
            else:
                response = await nodes.ask(node, InitProducerIdRequest(None, INT32_MAX))
                code = error_code(response.error_code)
                if not code:
                    return ProducerIdentity(response.producer_id, response.producer_epoch)
                if not code.retriable:
                    raise ApiError(code, f"no producer id was assigned ({code.name})")
        except UnsupportedVersion as error:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, str(error)) from error
        except AuthenticationError:
            raise
        except (OSError, Disconnected) as error:
            log.debug("InitProducerId failed, and is repeated: %s", error)
        delay = delay_ms(failures, settings.retry_backoff_ms, settings.retry_backoff_max_ms, uniform)
        failures += 1
        await trio.sleep(delay / 1000)
