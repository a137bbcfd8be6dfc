"""The settings of the service: three sources, one declaration, and messages that name the source."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, asdict
from pathlib import Path
from typing import Any

import pytest

from rolin.errors import DataError, ParameterError, UnknownOption
from rolin.service.settings import SETTINGS, Settings, read_settings, settings_table

SECRET = "a-secret-of-mine-0123"
# A value of every setting that is not its default: as a text, in TOML, and in Python.
OTHERS: dict[str, tuple[str, str, Any]] = {
    "host": ("::1", '"::1"', "::1"),
    "port": ("0", "0", 0),
    "data": ("a/b", '"a/b"', Path("a/b")),
    "database": ("postgresql://h/x", '"postgresql://h/x"', "postgresql://h/x"),
    "read_only": ("true", "true", True),
    "api_key": (SECRET, f'"{SECRET}"', SECRET),
    "tls_certificate": ("c.pem", '"c.pem"', Path("c.pem")),
    "tls_key": ("k.pem", '"k.pem"', Path("k.pem")),
    "log_level": ("error", '"error"', "error"),
    "log_format": ("json", '"json"', "json"),
    "access_log": ("true", "true", True),
    "traces": ("true", "true", True),
    "fallback": ("baseline", '"baseline"', "baseline"),
    "compress": ("false", "false", False),
    "max_body": ("1024", "1_024", 1024),
    "max_depth": ("5", "5", 5),
    "max_arms": ("7", "7", 7),
    "max_catalogue": ("4096", "4_096", 4096),
    "max_batch": ("8", "8", 8),
    "metrics_arms": ("9", "9", 9),
    "rate": ("2.5", "2.5", 2.5),
    "burst": ("3", "3", 3),
    "request_timeout": ("1", "1", 1.0),
    "drain_timeout": ("4", "4", 4),
}


def written(folder: Path, text: str) -> Path:
    """Return a settings file."""
    path = folder / "rolin.toml"
    path.write_text(text)
    return path


def test_every_setting_comes_from_every_source(tmp_path: Path) -> None:
    """Flags, environment and file set each setting to the same value of the same type."""
    expected = {name: value for name, (_, _, value) in OTHERS.items()}
    assert list(expected) == [each.name for each in SETTINGS]
    assert not [name for name, value in asdict(Settings()).items() if value == expected[name]]
    texts = {name: text for name, (text, _, _) in OTHERS.items()}
    in_file = written(
        tmp_path, "\n".join(f"{name} = {toml}" for name, (_, toml, _) in OTHERS.items())
    )
    variables = {each.variable: texts[each.name] for each in SETTINGS}
    for found in (
        read_settings(texts, {}),
        read_settings({}, variables),
        read_settings({}, {}, in_file),
    ):
        assert asdict(found) == expected
        assert [type(value) for value in asdict(found).values()] == list(
            map(type, expected.values())
        )


def test_flags_come_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    """Each source overrides the next one; what none has is the default."""
    path = written(tmp_path, "port = 1\nburst = 1\nmax_arms = 1")
    environment = {"ROLIN_PORT": "2", "ROLIN_BURST": "2", "ROLIN_OTHER": "x"}
    found = read_settings({"port": "3", "host": None}, environment, path)
    assert (found.port, found.burst, found.max_arms) == (3, 2, 1)
    assert found.host == Settings().host
    assert read_settings({}, {}) == Settings()


@pytest.mark.parametrize(
    ("flags", "environment", "text", "message"),
    [
        ({"port": "7e4"}, {}, "", "--port '7e4', expected a whole number from 0 to 65535"),
        ({"port": "65536"}, {}, "", "--port 65536, expected a whole number from 0 to 65535"),
        ({"rate": "nan"}, {}, "", "--rate nan, expected a number of at least 0"),
        ({"rate": "inf"}, {}, "", "--rate inf, expected a number of at least 0"),
        ({"data": ""}, {}, "", "--data '', expected the name of a file or folder"),
        ({"data": "a\0b"}, {}, "", "--data 'a\\x00b', expected the name of a file or folder"),
        ({"host": ""}, {}, "", "--host '', expected a text"),
        ({}, {"ROLIN_BURST": "0"}, "", "ROLIN_BURST=0, expected a whole number of at least 1"),
        ({}, {"ROLIN_PORT": ""}, "", "ROLIN_PORT='', expected a whole number from 0 to 65535"),
        ({}, {"ROLIN_ACCESS_LOG": "yes"}, "", "ROLIN_ACCESS_LOG='yes', expected true or false"),
        ({}, {"ROLIN_FALLBACK": "no"}, "", "ROLIN_FALLBACK='no', expected one of error, baseline"),
        ({}, {}, "port = '1'", "port = '1' in rolin.toml, expected a whole number from 0 to 65535"),
        ({}, {}, "port = true", "port = True in rolin.toml, expected a whole number from 0 to 65535"),
        ({}, {}, "access_log = 1", "access_log = 1 in rolin.toml, expected true or false"),
        ({}, {}, "data = 1", "data = 1 in rolin.toml, expected the name of a file or folder"),
        ({}, {}, "prot = 1", "prot in rolin.toml is not a setting; did you mean port?"),
        ({}, {}, "tls-key = 'a'", "tls-key in rolin.toml is not a setting; did you mean tls_key?"),
        ({}, {}, "tls_key = 'a'", "only tls_key is set, expected both tls_certificate and tls_key, or neither"),
        ({"tls_certificate": "a"}, {}, "", "only tls_certificate is set, expected both tls_certificate and tls_key, or neither"),
    ],
)  # fmt: skip
def test_messages_name_source_value_and_expectation(
    flags: dict[str, str],
    environment: dict[str, str],
    text: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each source has its own spelling, which the user can search for."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path, text)
    with pytest.raises(ParameterError) as raised:
        read_settings(flags, environment, "rolin.toml")
    assert str(raised.value) == message


@pytest.mark.parametrize("key", ["short", "", "fifteen-chars-0", "with spaces 0123456", "ümlaut-0123456789", "tab\t0123456789abcd"])  # fmt: skip
def test_a_bad_key_is_not_shown(key: str, tmp_path: Path) -> None:
    """No message, from whichever source, holds the secret."""
    path = written(tmp_path, f"api_key = {key!r}".replace("\\t", "\\u0009").replace("'", '"'))
    for read in (
        lambda: read_settings({}, {"ROLIN_API_KEY": key}),
        lambda: read_settings({}, {}, path),
        lambda: Settings(api_key=key),
    ):
        with pytest.raises(ParameterError, match=r"\*\*\*.*, expected at least 16") as raised:
            read()
        assert not key or key not in str(raised.value)


def test_the_key_is_not_in_the_text_of_the_settings() -> None:
    """Settings can be logged."""
    assert SECRET not in repr(Settings(api_key=SECRET))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file, a folder, bad TOML and unknown names without a similar one."""
    with pytest.raises(DataError, match="there is no settings file"):
        read_settings({}, {}, tmp_path / "missing.toml")
    with pytest.raises(DataError, match="is not a file"):
        read_settings({}, {}, tmp_path)
    for text in ("port = ", "\x00", "a = " + "[" * 10_000):
        with pytest.raises(DataError, match="is not a TOML file"):
            read_settings({}, {}, written(tmp_path, text))
    (tmp_path / "rolin.toml").write_bytes(b"host = '\xff'")
    with pytest.raises(DataError, match="is not a TOML file"):
        read_settings({}, {}, tmp_path / "rolin.toml")
    with pytest.raises(
        UnknownOption, match=r"zzz .* is not a setting; expected some of host, port"
    ):
        read_settings({}, {}, written(tmp_path, "zzz = 1"))


def test_settings_are_checked_and_fixed() -> None:
    """Settings made in Python are checked too, and cannot change."""
    with pytest.raises(ParameterError, match="port='1', expected a whole number"):
        Settings(port="1")  # type: ignore[arg-type]  # on purpose
    assert Settings(data="x", rate=3).data == Path("x")  # type: ignore[arg-type]  # on purpose
    with pytest.raises(FrozenInstanceError):
        Settings().port = 1  # type: ignore[misc]  # on purpose


def test_the_table_has_a_row_per_setting() -> None:
    """Every setting is described, and the secret has no flag."""
    rows = settings_table().splitlines()[2:]
    assert len(rows) == len(SETTINGS)
    for each, row in zip(SETTINGS, rows, strict=True):
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert len(cells) == 5
        assert cells[0] == f"`{each.name}`"
        assert cells[1] == ("" if each.secret else f"`{each.flag}`")
        assert cells[2] == f"`{each.variable}`"
        assert cells[4].endswith(".")
    assert [each.name for each in SETTINGS if each.flag is None] == ["api_key"]
