"""Open connections that fail to log in, from a process of their own:
``python -m tools.bench.failing_logins PORT RATE SECONDS [--tls]``. Print how many the broker refused in a second.
"""

from __future__ import annotations

import argparse

from tools.bench import frames
from tools.bench.secured_callers import WRONG_PASSWORD, Security, visits

OPEN_MAX = 2_000


def main() -> None:
    """Parse the command line, and open connections."""
    parser = argparse.ArgumentParser(description="Open connections that fail to log in.")
    parser.add_argument("port", type=int)
    parser.add_argument("rate", type=float)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--tls", action="store_true")
    options = parser.parse_args()
    security = Security(options.tls, "SCRAM-SHA-256", WRONG_PASSWORD)
    made = visits(
        options.port, security, frames.metadata(), seconds=options.seconds, open_max=OPEN_MAX, rate=options.rate
    )
    if made.served:
        raise SystemExit(f"the broker let {made.served} clients in with a wrong password")
    print(made.refused / made.seconds)


if __name__ == "__main__":
    main()
