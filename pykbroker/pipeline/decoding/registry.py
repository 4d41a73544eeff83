"""A schema registry, asked over its REST API for the schema of an id."""

from __future__ import annotations

import time
from base64 import b64encode
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import Request, urlopen

import msgspec

from pykbroker.pipeline.decoding.avro import AvroSchema, parse_schema
from pykbroker.pipeline.decoding.bad_record import BadRecord
from pykbroker.pipeline.errors import PipelineError

ANSWER_S_MAX = 10
ATTEMPTS = 4
RETRY_S = 0.25
NO_SCHEMA = 40403
"""The registry's code for an id that has no schema. Other answers 404 come from something else at the address."""
MEDIA_TYPE = "application/vnd.schemaregistry.v1+json, application/json"


class RegisteredSchema(msgspec.Struct, frozen=True):
    """The answer of `GET /schemas/ids/{id}`. A registry leaves out the type if it is Avro."""

    text: str = msgspec.field(name="schema")
    type: str = msgspec.field(name="schemaType", default="AVRO")
    references: list[Any] = []


class RegistryError(msgspec.Struct, frozen=True):
    """The answer of a registry to a request that it cannot fulfil."""

    error_code: int = 0


class SchemaRegistry:
    """The registry at a URL, which may have a user and a password. Schemas never change, so each is asked for once."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise PipelineError("the registry must be a URL such as http://registry:8081")
        self._headers = {"Accept": MEDIA_TYPE}
        if parts.username is not None:
            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {b64encode(user.encode()).decode()}"
        host = parts.netloc.rpartition("@")[2]
        self._url = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        self._schemas: dict[int, AvroSchema | BadRecord] = {}

    def schema(self, schema_id: int) -> AvroSchema:
        """Return the Avro schema of an id.

        Raise BadRecord if the registry has no such schema, and PipelineError if it does not answer.
        """
        found = self._schemas.get(schema_id)
        if found is None:
            found = self._schemas[schema_id] = self._fetched(schema_id)
        if isinstance(found, BadRecord):
            raise found
        return found

    def text(self, schema_id: int) -> str:
        """Return the text of the Avro schema of an id. Errors are those of `schema`."""
        answer = self._answer(f"{self._url}/schemas/ids/{schema_id}")
        if isinstance(answer, BadRecord):
            raise answer
        try:
            found = msgspec.json.decode(answer, type=RegisteredSchema)
        except msgspec.MsgspecError as error:
            raise PipelineError(
                f"{self._url} is no schema registry: its answer for schema {schema_id} is {error}"
            ) from None
        if found.type != "AVRO":
            raise BadRecord(f"schema {schema_id} is of type {found.type}, not AVRO")
        if found.references:
            raise PipelineError(f"schema {schema_id} refers to other schemas, which is not supported")
        return found.text

    def _fetched(self, schema_id: int) -> AvroSchema | BadRecord:
        try:
            return parse_schema(self.text(schema_id), f"schema {schema_id} of {self._url}")
        except BadRecord as bad:
            return bad

    def _answer(self, url: str) -> bytes | BadRecord:
        failure = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(RETRY_S * 2**attempt)
            try:
                with urlopen(Request(url, headers=self._headers), timeout=ANSWER_S_MAX) as response:
                    content: bytes = response.read()
                    return content
            except HTTPError as error:
                if _code(error) == NO_SCHEMA:
                    return BadRecord(f"the registry has no schema {url.rpartition('/')[2]}")
                failure = f"HTTP {error.code} {error.reason}"
                if error.code < 500 and error.code != 429:
                    break
            except (URLError, TimeoutError, ConnectionError) as error:
                failure = str(getattr(error, "reason", error))
        raise PipelineError(f"the schema registry does not answer {url}: {failure}")


def _code(error: HTTPError) -> int:
    try:
        return msgspec.json.decode(error.read(), type=RegistryError).error_code
    except msgspec.MsgspecError:
        return 0
