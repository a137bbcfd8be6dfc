"""`rolin serve`: run the decision service."""

from __future__ import annotations

import inspect
import os
import socket
import ssl
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from rolin._support.blas import one_thread_for_good
from rolin._support.optional import needs
from rolin.errors import DataError
from rolin.service.data_folder import make_folder
from rolin.service.keys import Keys, open_keys
from rolin.service.settings import SETTINGS, Setting, Settings, read_settings

__all__ = ["run"]

Config = Annotated[Path | None, typer.Option(metavar="FILE", help="TOML file with settings.")]
Demo = Annotated[bool, typer.Option("--demo", help="Serve a demo with simulated visitors.")]


def run(*, config: Path | None, demo: bool, **flags: str | bool | None) -> None:
    """Serve decisions over HTTP.

    Flags come first, then environment variables (--port is ROLIN_PORT), then the file.
    """
    with needs("service"):
        import uvicorn

        from rolin.service.app import create_app
        from rolin.service.lifespan import Lifespan
        from rolin.service.logs import start_logging
    settings = read_settings(flags, os.environ, config)
    start_logging(settings)
    make_folder(settings.data)
    keys = open_keys(settings)
    # Products are small here: with more threads, BLAS took up to eight times as long on a busy machine.
    one_thread_for_good()
    app = create_app(settings, keys, demo=demo)
    server_config = _server_config(uvicorn, app, settings)
    server_config.lifespan_class = Lifespan
    server = uvicorn.Server(server_config)
    with _listener(settings) as listener:
        # The key comes last: if anything above fails, no key was created that nobody has seen.
        typer.echo(_greeting(settings, keys, listener.getsockname()[1]))
        try:
            server.run(sockets=[listener])
        except KeyboardInterrupt:  # uvicorn raises the signal again after it has drained
            if not server.started:
                raise
        except SystemExit:  # of uvicorn, if the application does not start
            if server.started:
                raise
    if not server.started:
        if isinstance(server.lifespan, Lifespan) and server.lifespan.error is not None:
            raise server.lifespan.error
        raise DataError("the service did not start; the log above says why")
    typer.echo("Stopped.")


def _server_config(uvicorn: Any, app: Any, settings: Settings) -> Any:
    made = uvicorn.Config(
        app,
        http=_http(),
        log_level=settings.log_level,
        log_config=None,  # all log in one format, and requests are logged by the service
        access_log=False,
        timeout_graceful_shutdown=settings.drain_timeout,
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
        server_header=False,
        lifespan="on",
        ws="none",
        workers=1,
    )
    try:
        made.load()
    except (ssl.SSLError, OSError) as error:
        raise DataError(
            f"the certificate {settings.tls_certificate} with the key {settings.tls_key} cannot be used: {error}"
        ) from error
    return made


def _http() -> Any:
    """Return what reads HTTP: httptools, or h11 where it is not installed, which takes longer."""
    try:
        from rolin.service.http_protocol import HttpProtocol
    except ImportError:
        return "h11"
    return HttpProtocol


def _listener(settings: Settings) -> socket.socket:
    """Return a socket that listens at the address; early requests wait there until the app is ready."""
    with ExitStack() as opened:
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                settings.host, settings.port, type=socket.SOCK_STREAM
            )[0]
            listener = opened.enter_context(socket.socket(family, kind, protocol))
            if os.name == "posix":  # restart at once; on Windows it would let others take the port
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(2048)  # as many as uvicorn lets wait
        except OSError as error:
            raise DataError(
                f"cannot listen on {settings.host}, port {settings.port}: {error.strerror or error}; choose another "
                "--port or --host"
            ) from error
        opened.pop_all()  # it stays open
    return listener


def _greeting(settings: Settings, keys: Keys, port: int) -> str:
    """Return where the service listens; create the first key if there is none."""
    scheme = "http" if settings.tls_certificate is None else "https"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = f"{scheme}://{host}:{port}"
    lines = [
        f"Listening on {url}",
        f"Dashboard: {url}/dashboard",
        f"Data folder: {settings.data.resolve()}",
    ]
    if settings.database is not None:
        lines.append(f"Bandits and keys: {keys.where}")
    if not settings.read_only and (text := keys.create_first()) is not None:
        lines.append(f"API key, which is not shown again: {text}")
    if settings.read_only and not keys.list():
        lines.append(
            "There is no API key, so every request is refused: create one with rolin keys create, or set ROLIN_API_KEY."
        )
    lines.append(
        f'Try: curl {url}/v1/bandits -H "Authorization: Bearer $KEY", with your key as KEY'
    )
    if scheme == "http" and settings.host not in ("127.0.0.1", "::1", "localhost"):
        lines.append(
            "Keys travel unencrypted: set tls_certificate and tls_key, or use a proxy with TLS."
        )
    return "\n".join(lines)


def _parameter(setting: Setting) -> inspect.Parameter:
    """Return the option of a setting. Its value is checked by `read_settings`, so the command takes any text."""
    kind = bool if setting.kind is bool else str
    metavar = {int: "NUMBER", float: "NUMBER", Path: "PATH"}.get(setting.kind, "TEXT")
    option = typer.Option(
        setting.flag if kind is str else f"{setting.flag}/--no-{(setting.flag or '')[2:]}",
        metavar=None if kind is bool else "|".join(setting.choices) or metavar,
        help=setting.meaning,
        show_default=False if setting.default is None else setting.shown_default,
    )
    return inspect.Parameter(
        setting.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, option],
    )


_KIND = inspect.Parameter.KEYWORD_ONLY
_parameters = [
    *(_parameter(setting) for setting in SETTINGS if setting.flag is not None),
    inspect.Parameter("config", _KIND, default=None, annotation=Config),
    inspect.Parameter("demo", _KIND, default=False, annotation=Demo),
]
run.__signature__ = inspect.Signature(_parameters)  # type: ignore[attr-defined]  # typer reads it
run.__annotations__ = {each.name: each.annotation for each in _parameters}
