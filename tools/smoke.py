"""A test of an installed pykbroker: start it, request ApiVersions, and stop it.

`python -m tools.smoke path/to/pykbroker` prints the output of the broker and exits with 1 if the broker does not start,
does not answer, or does not exit with 0 after SIGTERM.
"""

from __future__ import annotations

import socket
import struct
import sys
import tempfile
from pathlib import Path

from tools.broker_process import BrokerProcess

CORRELATION_ID = 7
# Size, ApiVersions (18) version 0, correlation id and no client id, encoded by hand to be independent of `wire`.
API_VERSIONS_REQUEST = struct.pack(">ihhih", 10, 18, 0, CORRELATION_ID, -1)
API_VERSIONS_RESPONSE = struct.Struct(">iihi")  # size, correlation id, error code, number of APIs


def count_apis(port: int) -> int:
    """Return the number of APIs that the broker on this port advertises; raise RuntimeError if the
    response is invalid.
    """
    with socket.create_connection(("127.0.0.1", port), timeout=10) as peer, peer.makefile("rb") as answer:
        peer.sendall(API_VERSIONS_REQUEST)
        _size, correlation_id, error_code, apis = API_VERSIONS_RESPONSE.unpack(answer.read(API_VERSIONS_RESPONSE.size))
    if correlation_id != CORRELATION_ID or error_code or not apis:
        raise RuntimeError(f"ApiVersions: correlation id {correlation_id}, error {error_code}, {apis} APIs")
    return int(apis)


def main(program: str) -> int:
    """Print the result; return 0 if the test passed."""
    with tempfile.TemporaryDirectory() as directory:
        broker = BrokerProcess(Path(directory), "--memory", program=[program])
        broker.start()
        try:
            apis = count_apis(broker.port)
            exit_code = broker.stop()
        finally:
            broker.kill()
        print(f"{program}: {apis} APIs, exit code {exit_code} after SIGTERM")
        if exit_code:
            print(broker.output(), file=sys.stderr)
    return exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
