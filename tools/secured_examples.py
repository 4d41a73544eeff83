"""The secured variants of the programs of `examples/`: the lines of `docs/security.md`, put into copies of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "security.md"
USER, PASSWORD = "alice", "alice-secret"
ADDRESS, AUTHORITY, PROPERTIES = "127.0.0.1:9092", "data/tls-ca.pem", "alice.properties"
"""The address and the files of the page."""
LINES = "{lines}"
"""The place of the lines of the page in a replacement."""
BOOTSTRAP_OF_PYTHON = "bootstrap = sys.argv[1]"
LINES_OF_PYTHON = (BOOTSTRAP_OF_PYTHON, f"{LINES}\n{BOOTSTRAP_OF_PYTHON}")
JAVA_IMPORTS = ("import java.util.Map;", "import java.io.FileReader;\nimport java.util.Map;")
MORE_JAVA_IMPORTS = (JAVA_IMPORTS[0], f"{JAVA_IMPORTS[1]}\nimport java.util.Properties;")
CLIENT_OF_JAVA = 'Map<String, Object> client = Map.of("bootstrap.servers", bootstrap);'
REPLACEMENTS: dict[str, tuple[tuple[str, str], ...]] = {
    "kafka-python": (LINES_OF_PYTHON, ("bootstrap_servers=bootstrap", "**secured")),
    "aiokafka": (LINES_OF_PYTHON, ("bootstrap_servers=bootstrap", "**secured")),
    "confluent-kafka": (LINES_OF_PYTHON, ('"bootstrap.servers": bootstrap', "**secured")),
    "faststream": (LINES_OF_PYTHON, ("KafkaBroker(bootstrap,", "KafkaBroker(bootstrap, security=security,")),
    "quix": (LINES_OF_PYTHON, ("broker_address=bootstrap", "broker_address=secured")),
    "spark": (LINES_OF_PYTHON, ('"kafka.bootstrap.servers": bootstrap', "**secured")),
    "node": (("const bootstrap =", f"{LINES}\nconst bootstrap ="), ("brokers: [bootstrap]", "...secured")),
    "go": (
        ('import (\n\t"context"', 'import (\n\t"context"\n\t"crypto/tls"\n\t"crypto/x509"'),
        ('kgo"\n)', 'kgo"\n\t"github.com/twmb/franz-go/pkg/sasl/plain"\n)'),
        ("func main() {", f"{LINES}\nfunc main() {{"),
        ("kgo.NewClient(kgo.SeedBrokers(bootstrap)", "kgo.NewClient(append(secured(), kgo.SeedBrokers(bootstrap)"),
        ("kgo.AllowAutoTopicCreation())", "kgo.AllowAutoTopicCreation())...)"),
        ("kgo.NewOffset().AtStart()))", "kgo.NewOffset().AtStart()))...)"),
    ),
    "java": (
        MORE_JAVA_IMPORTS,
        ('Map<String, Object> sending = Map.of("bootstrap.servers", bootstrap);', f"{LINES}var sending = secured;"),
        ("Map<String, Object> reading = Map.of(", "var reading = new Properties();\nreading.putAll(Map.of("),
        ('"auto.offset.reset", "earliest");', '"auto.offset.reset", "earliest"));\nreading.putAll(secured);'),
    ),
    "kafka-streams": (
        JAVA_IMPORTS,
        (CLIENT_OF_JAVA, f"{LINES}var client = secured;"),
        ("try (var streams =", "properties.putAll(secured);\ntry (var streams ="),
    ),
    "flink": (
        JAVA_IMPORTS,
        ("private static final int NUMBERS", "private static Properties secured;\nprivate static final int NUMBERS"),
        (CLIENT_OF_JAVA, f"{LINES.replace('lines', 'assigned')}var client = secured;"),
        (".setTopics(topic)\n", ".setProperties(secured)\n.setTopics(topic)\n"),
        ("var properties = new Properties();", "var properties = new Properties();\nproperties.putAll(secured);"),
    ),
    "kafka-connect": (('cat >"$scratch/source', f'(cd "$scratch"\n{LINES})\ncat >"$scratch/source'),),
    "mirrormaker": (
        ("--topic", "--command-config alice.properties --topic"),
        ("java org.apache.kafka.connect.mirror", f'(cd "$scratch"\n{LINES})\njava org.apache.kafka.connect.mirror'),
    ),
    "spring": (),
}
"""The texts of each program, and what takes their place."""
FILES = {"spring": "src/main/resources/application.properties"}
"""The file of a program whose whole content the page has."""
SECTION_OF = {"kafka-streams": "java", "flink": "java"}
"""The sections of programs that have none of their own."""


@dataclass(frozen=True)
class Secured:
    """The broker of secured programs: the file of its authority, and that of the properties of the user."""

    authority: Path
    properties: Path

    def put_into(self, copy: Path, file: str, bootstrap: str) -> None:
        """Change the copy of a program so that it connects with the lines of the page."""
        directory = copy.name
        lines = sections()[SECTION_OF.get(directory, directory)]
        if directory in FILES:
            target = copy / FILES[directory]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(self.filled(lines, bootstrap))
        program = copy / file
        text = program.read_text()
        for old, new in REPLACEMENTS[directory]:
            assert old in text, f"{directory}: the program does not have {old!r}"
            assigned = lines.replace("var secured =", "secured =")
            text = text.replace(old, new.replace(LINES, lines).replace("{assigned}", assigned))
        program.write_text(self.filled(text, bootstrap))

    def filled(self, text: str, bootstrap: str) -> str:
        """Return a text of the page with the address and the files of this broker."""
        text = text.replace(ADDRESS, bootstrap).replace(AUTHORITY, str(self.authority))
        return re.sub(rf"(?<![/\w]){re.escape(PROPERTIES)}", str(self.properties), text)


def sections() -> dict[str, str]:
    """Return the first block of code of each section of the page about a client."""
    _, *parts = re.split(r"^### ", PAGE.read_text(), flags=re.MULTILINE)
    blocks = {part.partition("\n")[0]: re.findall(r"^```\w+\n(.*?)^```", part, re.M | re.DOTALL) for part in parts}
    return {name.lower(): found[0] for name, found in blocks.items()}


def properties_of_page() -> str:
    """Return the file of a Java client on the page."""
    (found,) = re.findall(rf"^```properties\n# {re.escape(PROPERTIES)}\n(.*?)^```", PAGE.read_text(), re.M | re.DOTALL)
    text: str = found
    return text
