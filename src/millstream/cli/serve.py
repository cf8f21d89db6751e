"""`millstream serve` and `millstream tokens`: the server, and the tokens of its users."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from millstream.cli.exits import UsageError
from millstream.cli.log_access import location_of
from millstream.cli.options import Data, Output, cluster_settings, command
from millstream.cli.printing import format_time, print_note, print_rows, print_text
from millstream.cli.user_input import to_pairs
from millstream.errors import SetupError

EXAMPLES = (
    "millstream serve",
    "millstream serve --data shop --port 8090",
    "millstream serve --host 0.0.0.0 --tls-certificate cert.pem --tls-key key.pem --allowed-host streams.example.com",
)

tokens = typer.Typer(no_args_is_help=True, help="The tokens of the server's users.")

RoleName = Literal["scraper", "viewer", "operator", "admin"]


def serve(
    host: Annotated[
        str,
        typer.Option("--host", help="The address on which to listen. Other than loopback it needs TLS or --insecure."),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0: a free one.")] = 8088,
    auth: Annotated[
        Literal["on", "off"], typer.Option("--auth", help="off: requests need no token; on loopback only.")
    ] = "on",
    tls_certificate: Annotated[
        Path | None, typer.Option("--tls-certificate", metavar="FILE", help="The certificate for TLS, in PEM.")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option("--tls-key", metavar="FILE", help="The key of the certificate.")
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen on an address other than loopback without TLS.")
    ] = False,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option("--allowed-host", metavar="NAME", help="A further name under which it is reached; repeatable."),
    ] = None,
    max_streams: Annotated[
        int, typer.Option("--max-streams", min=1, help="The largest number of open event streams.")
    ] = 100,
    ready_max_lag: Annotated[
        int | None,
        typer.Option(
            "--ready-max-lag",
            min=0,
            metavar="RECORDS",
            help="/readyz answers 503 if an application is further behind. Default: no bound.",
        ),
    ] = None,
    alerts: Annotated[
        Path | None,
        typer.Option(
            "--alerts",
            metavar="FILE",
            help="A file with rules of alerts. Default: those of the profile or millstream.toml.",
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", "-c", metavar="KEY=VALUE", help="A configuration key of the log; repeatable."),
    ] = None,
    data: Data = None,
) -> None:
    """Serves the applications of a data directory or of a cluster: HTTP API, metrics, SQL and the web console.

    It prints the address of the console, with a code that opens a session of an admin once. Programs send a token:
    millstream tokens create.
    """
    try:
        from millstream.serve.server import ServerProcess, announce
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "millstream":
            raise
        hint = 'pip install "millstream[serve]"'
        raise SetupError(f"the server requires the package {error.name}", hint=hint) from None
    from millstream.serve.options import ServeOptions

    options = ServeOptions(
        host=host,
        port=port,
        data=data,
        config={**cluster_settings(), **to_pairs(config)},
        is_open=auth == "off",
        certificate=tls_certificate,
        key=tls_key,
        insecure=insecure,
        allowed_hosts=tuple(allowed_host or ()),
        most_streams=max_streams,
        ready_max_lag=ready_max_lag,
        alerts=alerts,
    )
    if options.is_open:
        print_note("warning: --auth off: every process and every user of this machine is an admin of the server")
    if options.insecure and options.certificate is None:
        print_note("warning: --insecure: tokens and records are sent unencrypted, unless a proxy in front has TLS")
    location = location_of(data, options.config)
    if location.cluster is None and not location.views.exists():
        print_note(f"there is no log in {location.directory} yet; it is served as soon as there is one")
    ServerProcess(options).run(announce)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # as in millstream.serve.__main__


@command(
    tokens, "create", "millstream tokens create grafana", "millstream tokens create anna --role operator --days 90"
)
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name that the audit log shows.")],
    role: Annotated[RoleName, typer.Option("--role", help="What its holder may do.")] = "viewer",
    stores: Annotated[
        list[str] | None,
        typer.Option(
            "--store", metavar="APPLICATION/STORE", help="A store that it may read, with * for any part; repeatable."
        ),
    ] = None,
    days: Annotated[
        float | None, typer.Option("--days", min=0.0, help="How long it is valid. Default: for ever.")
    ] = None,
    data: Data = None,
) -> None:
    """Creates a token, and prints it. Only its hash is kept."""
    from millstream.serve.access.roles import Role
    from millstream.serve.access.tokens import Tokens

    for pattern in stores or ():
        if "/" not in pattern:
            raise UsageError(f"--store: {pattern!r} is not APPLICATION/STORE", hint="such as shop/sales, or shop/*")
    seconds = None if days is None else days * 86400
    text = Tokens(location_of(data).directory).create(
        name, Role.named(role), stores=tuple(stores or ()), seconds=seconds
    )
    print_text(text)
    print_note("this is the only time that the token is shown; send it as Authorization: Bearer TOKEN")


@command(tokens, "list", "millstream tokens list")
def list_(data: Data = None, output: Output = "table") -> None:
    """Lists the tokens."""
    from millstream.serve.access.tokens import Tokens

    rows = []
    for token in Tokens(location_of(data).directory).list():
        expires = "never" if token.expires is None else format_time(token.expires)
        rows.append(
            [token.id, token.name, token.role, ", ".join(token.stores) or "all", format_time(token.created), expires]
        )
    print_rows(["Id", "Name", "Role", "Stores", "Created", "Expires"], rows, output)


@command(tokens, "revoke", "millstream tokens revoke grafana")
def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name or the id of the token.")], data: Data = None
) -> None:
    """Revokes a token. It is refused from now on, by running servers, too."""
    from millstream.serve.access.tokens import Tokens

    Tokens(location_of(data).directory).revoke(name)
    print_note(f"token {name} is revoked")
