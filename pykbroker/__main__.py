"""The command `pykbroker`. It first checks the version of Python, in syntax that old versions can parse."""

import signal
import sys

PYTHON_MIN = (3, 11)


def refusal() -> str:
    """Return why this Python cannot run the broker, or an empty string."""
    if sys.version_info < PYTHON_MIN:
        needed, found = (".".join(map(str, version[:2])) for version in (PYTHON_MIN, sys.version_info))
        return "pykbroker needs Python {} or newer, and {} is {}".format(needed, sys.executable, found)  # noqa: UP032
    if sys.platform == "win32":
        return "pykbroker runs on Linux, and untested on macOS; on Windows, run it in WSL"
    if not __debug__:
        return "pykbroker checks itself with assert and does not run without: leave out python -O and PYTHONOPTIMIZE"
    return ""


def main() -> None:
    """Run the command line and exit."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing has begun that could be ended in order
    reason = refusal()
    if reason:
        sys.exit(reason)
    from pykbroker.world import shadowing

    reason = shadowing.refusal()
    if reason:
        sys.exit("pykbroker: " + reason)
    from pykbroker.cli.main import pykbroker

    pykbroker(prog_name="pykbroker")


if __name__ == "__main__":
    main()
