"""Variables of config providers. The expected values are those of a running Kafka 4.3.1."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from pykbroker.core.config.providers import PREFIX, PROVIDER_NAMES, PROVIDERS, has_variable, resolve, without_class
from pykbroker.core.errors import ApiError
from pykbroker.world.config_sources import FILE_BYTES_MAX, SystemConfigSources

FILE, DIRECTORY, ENVIRONMENT = PROVIDERS
DECLARED = {
    PROVIDER_NAMES: "file,env,dir",
    "config.providers.file.class": FILE,
    "config.providers.env.class": ENVIRONMENT,
    "config.providers.dir.class": DIRECTORY,
}
PROPERTIES = r"""
key=value one
empty=
uni=\u00e9
utf=é
nested=${file:ROOT/allowed/f:key}
password=pa:ss}w
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with properties in `allowed` and `other`, and with files of a directory provider in `d`."""
    for name in ("allowed", "other", "d/sub"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("allowed/f", "other/f"):
        (tmp_path / name).write_text(PROPERTIES.replace("ROOT", str(tmp_path)))
    (tmp_path / "other/broken").write_text("a=\\u12zz\n")
    (tmp_path / "d/a").write_text("dirvalue\n")
    (tmp_path / "d/bad").write_bytes(b"\xff\xfe")
    (tmp_path / "allowed/link").symlink_to(tmp_path / "other/f")
    monkeypatch.setenv("SOMEWHERE", "/home/x")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def placed(root: Path, text: str) -> str:
    """Return the text with the file `F` and the directory `D` at their places."""
    return text.replace(":F:", f":{root}/allowed/f:").replace("{dir:D", f"{{dir:{root}/d")


def value(text: str, declared: Mapping[str, str] = DECLARED) -> str:
    return resolve({"x": text}, declared, SystemConfigSources())["x"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${file:F:key}", "value one"),
        ("a${file:F:key}b${file:F:key}c", "avalue onebvalue onec"),
        ("${file:F:empty}", ""),
        ("${file:F:uni}${file:F:utf}", "éé"),
        ("${file:F:nested}", "${file:F:key}"),
        ("${file:F:password}", "pa:ss}w"),
        ("$${file:F:key}", "$value one"),
        ("\\${file:F:key}", "\\value one"),
        ("${x}${file:F:key}", "${x}value one"),
        ("${file:F:missing} and ${file:F:key}", "${file:F:missing} and value one"),
        ("${file:allowed/f:key}", "value one"),
        ("${env:SOMEWHERE}", "/home/x"),
        ("${env::SOMEWHERE}", "/home/x"),
        ("${env:EMPTY}", ""),
        ("${env:SOMEWHERE}:${dir:D:a}|", "/home/x:dirvalue\n|"),
        ("${dir:D/sub/..:a}", "dirvalue\n"),
    ],
)
def test_a_variable_is_replaced_by_the_value_of_its_key(root: Path, text: str, expected: str) -> None:
    assert value(placed(root, text)) == placed(root, expected)


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "${file:F:missing}", "${file:key}", "${file::key}", "${file:F}", "${other:F:key}", "${file:F:a:b}"),
        *("${${file:F:key}}", "${x ${file:F:key}", "${ file:F:key}", "${file:F: key}", "${File:F:key}", "${file:F:}"),
        *("${:key}", "${env:NOPE}", "${dir:D:sub}", "${dir:D:missing}", "${dir:a}", "${dir:D/a:a}", "${dir:D:sub/b}"),
        *("${dir:/nowhere:a}", "${dir:D:}", "${dir:D:..}", "${file\n:F:key}", "${file:F:no\nkey}"),
    ],
)
def test_an_unknown_variable_stays_as_it_is(root: Path, text: str) -> None:
    text = placed(root, text)
    assert value(text) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${file:/nowhere:key}", "Could not read properties from file /nowhere, in the value of x"),
        ("${file:R/other/broken:a}", "Could not read properties from file R/other/broken, in the value of x"),
        ("${file:R/d:a}", "Could not read properties from file R/d, in the value of x"),
        ("${file: R/allowed/f:key}", "Could not read properties from file  R/allowed/f, in the value of x"),
        ("${file:${file:x:y}:key}", "Could not read properties from file ${file, in the value of x"),
        ("${env:x:SOMEWHERE}", "Path is not supported for EnvVarConfigProvider, invalid value 'x', in the value of x"),
        ("${dir:R/d:bad}", "Could not read file R/d/bad for property bad, in the value of x"),
    ],
)
def test_an_unreadable_source_is_refused(root: Path, text: str, message: str) -> None:
    with pytest.raises(ApiError) as refused:
        value(text.replace("R/", f"{root}/"))
    assert refused.value.message == message.replace("R/", f"{root}/")


@pytest.mark.parametrize(
    ("allowed", "text", "is_allowed"),
    [
        ("R/allowed", "${file:R/allowed/f:key}", True),
        ("R/allowed", "${file:R/allowed/link:key}", True),
        ("R/allowed", "${file:R/other/f:key}", False),
        ("R/allowed", "${file:R/allowed/../other/f:key}", False),
        ("R/allowed", "${file:R/nowhere:key}", False),
        ("R/allowed", "${file:allowed/f:key}", False),
        ("R/allowed", "${dir:R/d:a}", False),
        ("R/allowed,R/d", "${dir:R/d:a}", True),
        ("R/allowed/f", "${file:R/allowed/f:key}", True),
        ("R/allowed/../allowed/.,", "${file:R/allowed/f:key}", True),
        ("/", "${file:R/allowed/f:key}", True),
        ("", "${file:R/allowed/f:key}", True),
        (",", "${file:R/allowed/f:key}", False),
    ],
)
def test_only_allowed_paths_are_read(root: Path, allowed: str, text: str, is_allowed: bool) -> None:
    paths = {f"{PREFIX}{name}.param.allowed.paths": allowed.replace("R/", f"{root}/") for name in ("file", "dir")}
    text = text.replace("R/", f"{root}/")
    assert (value(text, DECLARED | paths) != text) is is_allowed


@pytest.mark.parametrize(
    ("allowed", "message"),
    [
        ("relative", "Path relative is not absolute"),
        ("/nowhere", "Path /nowhere does not exist"),
        ("/, /", "Path  / is not absolute"),
    ],
)
def test_allowed_paths_are_absolute_and_exist(allowed: str, message: str) -> None:
    with pytest.raises(ApiError, match=message):
        value("x", DECLARED | {"config.providers.file.param.allowed.paths": allowed})


@pytest.mark.parametrize(("pattern", "matches"), [("SOME.*", True), ("SOME", False), ("OMEWHERE", False), ("", False)])
def test_the_allowlist_pattern_matches_whole_names(root: Path, pattern: str, matches: bool) -> None:
    declared = DECLARED | {"config.providers.env.param.allowlist.pattern": pattern}
    assert (value("${env:SOMEWHERE}", declared) == "/home/x") is matches


def test_an_allowlist_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(ApiError, match=r"allowlist\.pattern \[ of a config provider is no regular expression"):
        value("x", DECLARED | {"config.providers.env.param.allowlist.pattern": "["})


@pytest.mark.parametrize("names", ["file , env", "", " env", "other"])
def test_only_declared_providers_look_up(root: Path, names: str) -> None:
    assert value("${env:SOMEWHERE}", DECLARED | {PROVIDER_NAMES: names}) == "${env:SOMEWHERE}"


def test_the_names_of_providers_keep_their_spaces(root: Path) -> None:
    declared = {PROVIDER_NAMES: "file, env,", "config.providers. env.class": ENVIRONMENT}
    assert value("${ env:SOMEWHERE}", declared) == "/home/x"
    assert without_class(declared) == ["file"]


@pytest.mark.parametrize("name", ["com.example.Vault", f"{FILE} ", ""])
def test_another_class_is_refused_unless_it_is_ignored(name: str) -> None:
    declared = {PROVIDER_NAMES: "file", "config.providers.file.class": name}
    with pytest.raises(ApiError) as refused:
        value("x", declared)
    assert refused.value.message.startswith(
        f"Invalid value {name} for configuration config.providers.file.class: Could not load config provider class"
    )
    assert refused.value.message.endswith("pykbroker.ignore.classes=config.providers.file.class")
    declared["pykbroker.ignore.classes"] = "config.providers.file.class"
    assert value("${file:x:y}", declared) == "${file:x:y}"


def test_the_class_of_a_provider_that_is_not_named_does_not_count(root: Path) -> None:
    assert value("${env:SOMEWHERE}", DECLARED | {"config.providers.vault.class": "com.example.Vault"}) == "/home/x"


def test_only_regular_files_up_to_a_size_are_read(root: Path) -> None:
    for size, is_read in ((FILE_BYTES_MAX - 1, True), (FILE_BYTES_MAX, True), (FILE_BYTES_MAX + 1, False)):
        (root / "d/large").write_text("x" * size)
        if is_read:
            assert len(value(f"${{dir:{root}/d:large}}")) == size
        else:
            with pytest.raises(ApiError, match="Could not read file"):
                value(f"${{dir:{root}/d:large}}")
    with pytest.raises(ApiError, match="Could not read properties from file /dev/zero"):
        value("${file:/dev/zero:key}")


def test_a_text_has_a_variable_only_of_a_declared_provider() -> None:
    assert has_variable("a${env:X}", DECLARED)
    assert not has_variable("a${vault:X}", DECLARED)
    assert not has_variable("${env}", DECLARED)
