"""Apache Kafka's own jars, for its Java clients and tools. Maven downloads them once, into `.cache/` of
this checkout.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

VERSION = "4.3.1"
CACHE = Path(__file__).parent.parent / ".cache"
JARS = CACHE / f"kafka-{VERSION}" / "broker-and-tools"
# This is not the user's repository, since a pom without its jar there would break Spark's download of its own jars.
MAVEN_REPOSITORY = CACHE / "maven"
FETCH_SECONDS_MAX = 600
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>pykbroker</groupId><artifactId>kafka-jars</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies><dependency>
    <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version>
  </dependency><dependency>
    <groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{VERSION}</version>
    <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>
  </dependency></dependencies>
</project>
"""


class NoJars(Exception):
    """An error with the reason why the jars cannot be downloaded."""


def fetch() -> Path:
    """Return the directory with all jars; raise NoJars if Maven cannot download them."""
    if JARS.is_dir():
        return JARS
    if shutil.which("mvn") is None:
        raise NoJars("Maven (mvn) is not installed")
    JARS.parent.mkdir(parents=True, exist_ok=True)
    pom, partial = JARS.with_name("pom.xml"), JARS.with_name("partial")
    pom.write_text(POM)
    command = [
        "mvn",
        "-q",
        "-B",
        "-f",
        str(pom),
        f"-Dmaven.repo.local={MAVEN_REPOSITORY}",
        "dependency:copy-dependencies",
        "-DincludeScope=runtime",
        f"-DoutputDirectory={partial}",
    ]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=FETCH_SECONDS_MAX)
    except subprocess.CalledProcessError as error:
        raise NoJars(f"Maven could not fetch Apache Kafka {VERSION}: {error.stdout.strip()}") from error
    except subprocess.TimeoutExpired as error:
        raise NoJars(f"Maven took more than {FETCH_SECONDS_MAX} s to fetch Apache Kafka {VERSION}") from error
    return partial.rename(JARS)
