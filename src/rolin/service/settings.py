"""All settings of the service: from flags, the environment and a TOML file, in this order of precedence.

A setting is declared once, as a field of `Settings`. Its flag, its environment variable, its name in the file, its check
and its row in the documentation follow from the field.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from rolin._support.files import read_limited
from rolin.errors import DataError, ParameterError, UnknownOption

__all__ = ["SETTINGS", "Setting", "Settings", "read_settings", "settings_table"]

_MAX_FILE = 1 << 20  # bytes of a settings file
_MIN_KEY = 16  # characters of a key that the user chooses


def _declared(default: Any, meaning: str, **options: Any) -> Any:
    """Return the field of a setting; `options` are attributes of `Setting`."""
    hidden = options.get("secret", False) or options.get("address", False)
    return field(default=default, repr=not hidden, metadata={"meaning": meaning, **options})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings of the service; `settings_table` describes them."""

    host: str = _declared(
        "127.0.0.1", "Address to listen on. `0.0.0.0` accepts requests from other machines."
    )
    port: int = _declared(8000, "Port to listen on. 0 chooses a free one.", most=65_535)
    data: Path = _declared(Path("rolin-data"), "Folder of the keys and the bandits.")  # noqa: RUF009  # it is a field
    database: str | None = _declared(
        None,
        "PostgreSQL database of the keys and the bandits, which several processes can share: "
        "`postgresql://USER:PASSWORD@HOST:PORT/NAME`. Without it, they are in the folder.",
        address=True,
    )
    read_only: bool = _declared(
        False,
        "Only follow the database, and write nothing: decisions are answered, but not recorded. Needs `database`.",
    )
    api_key: str | None = _declared(
        None,
        "A key with all scopes, which is not stored. Without it, the first start creates a key.",
        secret=True,
        least=_MIN_KEY,
    )
    tls_certificate: Path | None = _declared(None, "Certificate for HTTPS, a PEM file.")  # noqa: RUF009  # it is a field
    tls_key: Path | None = _declared(None, "Private key of the certificate, a PEM file.")  # noqa: RUF009  # it is a field
    log_level: Literal["debug", "info", "warning", "error"] = _declared(
        "info", "Least severe messages to log: `debug`, `info`, `warning` or `error`."
    )
    log_format: Literal["text", "json"] = _declared(
        "text", "Format of the log: `text`, or `json` for one object per line."
    )
    access_log: bool = _declared(False, "Log every request.")
    traces: bool = _declared(
        False,
        "Send traces by OpenTelemetry to `OTEL_EXPORTER_OTLP_ENDPOINT`. Needs the extra `telemetry`.",
    )
    fallback: Literal["error", "baseline"] = _declared(
        "error",
        "Answer if a decision cannot be stored: `error` is status 503; `baseline` is the first arm, marked as not "
        "recorded.",
    )
    compress: bool = _declared(True, "Compress the features in new decisions of the journals.")
    # A question with 50 arms of 7 fields has 5 KB: a full batch of them fits, and so do 10 000 such arms.
    max_body: int = _declared(8 << 20, "Largest body of a request, in bytes.", least=1024)
    max_depth: int = _declared(
        32, "Deepest nesting of objects and lists in a body.", least=4, most=500
    )
    max_arms: int = _declared(10_000, "Largest number of arms of a decision.", least=1)
    max_catalogue: int = _declared(2 << 30, "Largest file of a catalogue, in bytes.", least=1024)
    max_batch: int = _declared(1000, "Largest number of items of a batch.", least=1)
    metrics_arms: int = _declared(
        100, "Arms of each bandit that `/metrics` counts by name. The rest are counted as `other`."
    )
    rate: float = _declared(0.0, "Requests per second that a key may send. 0 is no limit.")
    burst: int = _declared(
        100, "Requests that a key may send at once before `rate` limits it.", least=1
    )
    request_timeout: float = _declared(
        10.0, "Seconds after which an unanswered request gets status 503.", least=0.001
    )
    drain_timeout: int = _declared(
        10, "Seconds that open requests have to finish after SIGTERM or Ctrl-C."
    )

    def __post_init__(self) -> None:
        for setting in SETTINGS:
            checked = setting.checked(getattr(self, setting.name), f"{setting.name}=")
            object.__setattr__(self, setting.name, checked)  # the dataclass is frozen
        if self.read_only and self.database is None:
            raise ParameterError(
                "read_only=True without a database, expected the database that other processes write to"
            )
        if (self.tls_certificate is None) != (self.tls_key is None):
            given = "tls_key" if self.tls_certificate is None else "tls_certificate"
            raise ParameterError(
                f"only {given} is set, expected both tls_certificate and tls_key, or neither"
            )


@dataclass(frozen=True)
class Setting:
    """What is known of one setting.

    Parameters
    ----------
    name
        Its name in `Settings` and in the file.
    kind
        `str`, `int`, `float`, `bool` or `Path`.
    default
        Its value if no source has it.
    meaning
        One sentence or two, in Markdown.
    optional
        Whether its value may be `None`.
    choices
        All values of a text; empty if any text is allowed.
    least, most
        Range of a number, or of the length of a secret.
    secret
        Whether messages must not show the value. A secret has no flag: other users can see the flags of a process.
    address
        Whether it is the address of a database, which may hold a password, so that messages must not show it either.
    """

    name: str
    kind: type
    default: Any
    meaning: str
    optional: bool = False
    choices: tuple[str, ...] = ()
    least: float = 0
    most: float = math.inf
    secret: bool = False
    address: bool = False

    @property
    def flag(self) -> str | None:
        """The option of the command; `None` if there is none."""
        return None if self.secret else f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        """The environment variable."""
        return f"ROLIN_{self.name.upper()}"

    @property
    def shown_default(self) -> str:
        """The default, as users write it."""
        return str(self.default).lower() if self.kind is bool else str(self.default)

    @property
    def expected(self) -> str:
        """The values that the setting can have, in words."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.address:
            return "an address that begins with postgresql:// or postgres://"
        if self.secret:
            return f"at least {self.least} printable ASCII characters, without spaces"
        if self.kind in (int, float):
            what = "a whole number" if self.kind is int else "a number"
            if self.most == math.inf:
                return f"{what} of at least {self.least}"
            return f"{what} from {self.least} to {self.most}"
        if self.kind is bool:
            return "true or false"
        return "the name of a file or folder" if self.kind is Path else "a text"

    def parsed(self, text: str) -> object:
        """Return the value that a flag or the environment means; the text itself if it means none."""
        try:
            if self.kind is bool:
                return {"true": True, "false": False}.get(text.lower(), text)
            return self.kind(text) if self.kind in (int, float) else text
        except ValueError:
            return text

    def checked(self, value: object, before: str, after: str = "") -> object:
        """Return a value in its canonical form, or raise an error with the value between two texts."""
        if value is None and self.optional:
            return None
        found = value
        if self.kind is float and type(value) is int:
            found = float(value)
        elif self.kind is Path and isinstance(value, (str, PathLike)) and str(value):
            found = Path(value)
        if not self._accepts(found):
            shown = "***" if self.secret or self.address else repr(value)
            raise ParameterError(f"{before}{shown}{after}, expected {self.expected}")
        return found

    def _accepts(self, value: object) -> bool:
        if isinstance(value, bool) != (self.kind is bool):  # to Python, a bool is an int
            return False
        if not isinstance(value, self.kind):
            return False
        if isinstance(value, (int, float)):
            return self.least <= value <= self.most and math.isfinite(value)
        if self.choices:
            return value in self.choices
        text = str(value)
        if self.address and not text.startswith(("postgresql://", "postgres://")):
            return False
        if self.secret and (not text.isascii() or " " in text):
            return False
        return text.isprintable() and len(text) >= max(self.least, 1)


def _declarations() -> Iterator[Setting]:
    hints = get_type_hints(Settings)
    for each in fields(Settings):
        members = get_args(hints[each.name])
        if get_origin(hints[each.name]) is Literal:
            found: dict[str, Any] = {"kind": str, "choices": members}
        else:  # T or T | None
            found = {"kind": members[0] if members else hints[each.name]}
        yield Setting(
            name=each.name,
            default=each.default,
            optional=each.default is None,
            **found,
            **each.metadata,
        )


SETTINGS: tuple[Setting, ...] = tuple(_declarations())
"""All settings, in the order of the documentation."""


def read_settings(
    flags: Mapping[str, str | bool | None],
    environment: Mapping[str, str],
    config: str | PathLike[str] | None = None,
) -> Settings:
    """Return the settings of a service.

    Parameters
    ----------
    flags
        Values of the command line by name of the setting, `None` where there is none. They come first.
    environment
        Environment variables, which come next. Those without a setting are ignored.
    config
        TOML file, which comes last. All its names must be settings.

    Examples
    --------
    >>> settings = read_settings({"port": "9000"}, {"ROLIN_PORT": "8001", "ROLIN_RATE": "50"})
    >>> settings.port, settings.rate, settings.max_batch
    (9000, 50.0, 1000)
    """
    values = {} if config is None else _file(config)
    for setting in SETTINGS:
        text = environment.get(setting.variable)
        if text is not None:
            values[setting.name] = setting.checked(setting.parsed(text), f"{setting.variable}=")
    for setting in SETTINGS:
        given = flags.get(setting.name)
        if given is not None:
            value = setting.parsed(given) if isinstance(given, str) else given
            values[setting.name] = setting.checked(value, f"{setting.flag} ")
    return Settings(**values)


def _file(path: str | PathLike[str]) -> dict[str, Any]:
    """Return the checked settings of a TOML file."""
    try:
        found = tomllib.loads(read_limited(path, _MAX_FILE, DataError).decode())
    except FileNotFoundError:
        raise DataError(f"there is no settings file {path}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not a TOML file: {error}") from error
    known = {setting.name: setting for setting in SETTINGS}
    for name in found:
        if name not in known:
            close = get_close_matches(name.replace("-", "_"), known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"expected some of {', '.join(known)}"
            raise UnknownOption(f"{name} in {path} is not a setting; {hint}")
    return {
        name: known[name].checked(value, f"{name} = ", f" in {path}")
        for name, value in found.items()
    }


def settings_table() -> str:
    """Return all settings as a Markdown table, for the documentation."""
    lines = ["| setting | flag | environment | default | meaning |", "|---|---|---|---|---|"]
    for each in SETTINGS:
        flag = "" if each.flag is None else f"`{each.flag}`"
        default = "" if each.default is None else f"`{each.shown_default}`"
        lines.append(f"| `{each.name}` | {flag} | `{each.variable}` | {default} | {each.meaning} |")
    return "\n".join(lines) + "\n"
