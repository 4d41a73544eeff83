"""The settings by which each client logs in to a broker for tests, and trusts it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

MECHANISM = "SCRAM-SHA-256"
LOGIN_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True)
class LogInSettings:
    """The address of a broker, the file of the authority that clients trust, and the passwords of users by name."""

    bootstrap: str
    authority: str | None
    users: Mapping[str, str] = field(repr=False)

    @property
    def protocol(self) -> str:
        """Return the security protocol."""
        if self.users:
            return "SASL_SSL" if self.authority else "SASL_PLAINTEXT"
        return "SSL" if self.authority else "PLAINTEXT"

    def password(self, user: str | None) -> str | None:
        """Return the password of a user, or None on a broker without users. ValueError: there is no such user."""
        if user is None and not self.users:
            return None
        if user is None or user not in self.users:
            known = ", ".join(map(repr, self.users)) or "none: start it with users={'alice': 'secret'}"
            raise ValueError(f"the broker has no user {user!r}: its users are {known}")
        return self.users[user]

    def kafka_python(self, user: str | None) -> dict[str, Any]:
        """Return the keyword arguments of kafka-python."""
        found: dict[str, Any] = {"bootstrap_servers": self.bootstrap, "security_protocol": self.protocol}
        if self.authority:
            found["ssl_cafile"] = self.authority
        return found | self._of_python(user)

    def aiokafka(self, user: str | None) -> dict[str, Any]:
        """Return the keyword arguments of aiokafka."""
        found: dict[str, Any] = {"bootstrap_servers": self.bootstrap, "security_protocol": self.protocol}
        if self.authority:
            found["ssl_context"] = self._context()
        return found | self._of_python(user)

    def confluent(self, user: str | None) -> dict[str, str]:
        """Return the configs of confluent-kafka, and of other clients on librdkafka."""
        found = {"bootstrap.servers": self.bootstrap, "security.protocol": self.protocol}
        if self.authority:
            found["ssl.ca.location"] = self.authority
        if (password := self.password(user)) is not None:
            found |= {"sasl.mechanism": MECHANISM, "sasl.username": str(user), "sasl.password": password}
        return found

    def java(self, user: str | None) -> dict[str, str]:
        """Return the properties of Kafka's Java clients and tools."""
        found = {"bootstrap.servers": self.bootstrap, "security.protocol": self.protocol}
        if self.authority:
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.authority}
        if (password := self.password(user)) is not None:
            options = f'username="{escaped(str(user))}" password="{escaped(password)}"'
            found |= {"sasl.mechanism": MECHANISM, "sasl.jaas.config": f"{LOGIN_MODULE} required {options};"}
        return found

    def _of_python(self, user: str | None) -> dict[str, Any]:
        password = self.password(user)
        if password is None:
            return {}
        return {"sasl_mechanism": MECHANISM, "sasl_plain_username": user, "sasl_plain_password": password}

    def _context(self) -> ssl.SSLContext:
        import ssl

        return ssl.create_default_context(cafile=self.authority)


class GivesLogInSettings(ABC):
    """A broker or a cluster that gives each client its settings."""

    @abstractmethod
    def _log_in_settings(self) -> LogInSettings:
        """Return the settings of the users of the options."""

    def kafka_python(self, user: str | None = None) -> dict[str, Any]:
        """Return the keyword arguments of kafka-python for a user. ValueError: there is no such user."""
        return self._log_in_settings().kafka_python(user)

    def aiokafka(self, user: str | None = None) -> dict[str, Any]:
        """Return the keyword arguments of aiokafka for a user. ValueError: there is no such user."""
        return self._log_in_settings().aiokafka(user)

    def confluent(self, user: str | None = None) -> dict[str, str]:
        """Return the configs of confluent-kafka for a user. ValueError: there is no such user."""
        return self._log_in_settings().confluent(user)

    def java(self, user: str | None = None) -> dict[str, str]:
        """Return the properties of a Java client for a user. ValueError: there is no such user."""
        return self._log_in_settings().java(user)


def escaped(text: str) -> str:
    """Return a text as it stands between the quotes of a JAAS line."""
    return text.replace("\\", "\\\\").replace('"', '\\"')
