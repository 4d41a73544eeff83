"""The Java that Spark runs on: where it is, and whether it is new enough."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from pykbroker.pipeline.errors import NoJava

VERSION_MIN = 17
"""The oldest Java that Spark 4 runs on."""
ANSWER_S_MAX = 30
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_ADVICE = (
    f"Spark needs Java {VERSION_MIN} or newer: install a JDK (Debian, Ubuntu: `apt install openjdk-17-jre-headless`; "
    "macOS: `brew install openjdk@17`), and set JAVA_HOME to it if it is not the first `java` of PATH"
)


def require_java(environment: Mapping[str, str] = os.environ) -> str:
    """Return the path of the Java that Spark will use. Raise NoJava, with advice, if it is missing or too old."""
    home = environment.get("JAVA_HOME")
    if home:
        java = str(Path(home) / "bin" / "java")
        place = f"JAVA_HOME={home}"
        found = java if os.access(java, os.X_OK) else None
    else:
        place = "PATH"
        found = shutil.which("java", path=environment.get("PATH"))
    if found is None:
        raise NoJava(f"no Java in {place}. {_ADVICE}")
    version = major_version(_answer(found))
    if version is None or version < VERSION_MIN:
        raise NoJava(f"{found} is {'of an unknown version' if version is None else f'Java {version}'}. {_ADVICE}")
    return found


def major_version(answer: str) -> int | None:
    """Return the major version in the answer of `java -version`, such as 8 for 1.8.0, or None if it has none."""
    match = _VERSION.search(answer)
    if match is None:
        return None
    return int(match[2] if match[1] == "1" and match[2] else match[1])


def _answer(java: str) -> str:
    try:
        run = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=ANSWER_S_MAX, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoJava(f"{java} cannot be run: {error}. {_ADVICE}") from error
    return run.stderr + run.stdout
