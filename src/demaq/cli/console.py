"""`demaq console`: look at a store with a browser, whether a node runs on it or not."""

from __future__ import annotations

from pathlib import Path

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.listen_address import ListenAddress
from demaq.cli.stores import open_for_reading, other_stores_option, store_option, tell
from demaq.server.http_address import Address
from demaq.store.location import StoreLocation

DEFAULT = "127.0.0.1:8090"


@click.command(cls=ExampleFirst, example="$ demaq console --store orders")
@store_option
@click.option(
    "--http", type=ListenAddress(), default=DEFAULT, show_default=True, metavar="ADDRESS", help="Where it listens."
)
@other_stores_option("--other-store")
@click.option("--settings", type=click.Path(path_type=Path), metavar="FILE", help="Settings of the node, in TOML.")
@click.option("--tls-cert", type=click.Path(path_type=Path), metavar="FILE", help="Serve with TLS: the certificate.")
@click.option("--tls-key", type=click.Path(path_type=Path), metavar="FILE", help="Its key, if it is in another file.")
def console(
    place: StoreLocation,
    http: Address,
    others: tuple[StoreLocation, ...],
    settings: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
) -> None:
    """Serve the console of a store until it is stopped.

    A node serves its own, at /console. This is for a store that no node runs on, and for a node without one. Who may
    use it is said by `auth` in the settings; without, everyone who reaches the address may look, and on this machine
    act, too.
    """
    import asyncio

    from demaq.cli.gateway_report import settings_of
    from demaq.cli.stores import program_of
    from demaq.console.console_server import serve
    from demaq.console.console_settings import make_console_settings
    from demaq.gateways.http.server import listen

    with open_for_reading(place) as store:
        program = program_of(store)
    known = settings_of(program, settings, tls_cert, tls_key, None)
    tls = known.server_context()
    made = make_console_settings(
        str(place.where),
        known.incoming_default,
        http[0],
        is_https=tls is not None,
        others=[str(other.where) for other in others],
    )
    listener = listen(*http)
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    tell(f"console at {'http' if tls is None else 'https'}://{shown}:{port}/console; stop with Ctrl-C")
    asyncio.run(serve(made, listener, tls, is_proxied=False))
    tell("stopped")
