# SPDX-License-Identifier: Apache-2.0
"""The address of a live page: on this machine only, at a free port."""

import http
import os
import socket
import threading

from warpsim.base.checks import short, whole
from warpsim.base.extras import import_or_explain
from warpsim.show.serve import is_loopback, refusal

_MEETING = threading.Lock()


def checked_address(host: str, port: int) -> tuple[str, int]:
    """The host, and a free port where `port` is 0.

    Raises `ValueError` for a host that others can reach, because whoever opens the page may move the robots. Raises
    `OSError` for a port in use.
    """
    if not isinstance(host, str) or not is_loopback(host):
        raise ValueError(
            f"host is {short(host)}; a live page takes orders from whoever opens it, so it listens at this machine "
            "alone "
            "(127.0.0.1, ::1 or localhost); from another one use ssh -L"
        )
    if whole(port, "port", 0) >= 1 << 16:
        raise ValueError(f"port is {port}; give 0 to 65535")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        if os.name == "posix":  # a recently closed port is free
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            why = error.strerror or error
            raise OSError(
                f"cannot listen at {host}, port {port}: {why}; give another port, or 0 for a free one"
            ) from error
        return host, probe.getsockname()[1]


def quiet_server(host: str, port: int):
    """A `viser_server` that prints no announcement, neither from this thread nor later from its own."""
    import rich

    console = rich.get_console()
    with console.capture():  # captures what this thread prints, and nothing else
        server = viser_server(host, port)
    server.get_event_loop().call_soon_threadsafe(console.begin_capture)
    return server


def viser_server(host: str, port: int):
    """A viser server on this machine that refuses requests to other host names, and from other pages (`refusal`).

    viser makes its websocket server itself, and takes no argument for a check. The check is added by intercepting the
    call. Raises `RuntimeError` where the call does not occur.
    """
    viser = import_or_explain("viser", "show")
    import websockets.asyncio.server as sockets

    serve, met = sockets.serve, []

    def serve_checked(handler, *place, process_request=None, **options):
        if place[:1] != (host,) or not getattr(handler, "__module__", "").startswith("viser."):
            return serve(handler, *place, process_request=process_request, **options)  # another thread's server

        def check(connection, request):
            why = refusal(request.headers.get_all("Host"), request.headers.get_all("Origin"))
            if why:
                return connection.respond(http.HTTPStatus.FORBIDDEN, f"{why}\n")
            return None if process_request is None else process_request(connection, request)

        met.append(place)
        return serve(handler, *place, process_request=check, **options)

    with _MEETING:
        sockets.serve = serve_checked
        try:
            server = viser.ViserServer(host=host, port=port, verbose=False)
        finally:
            sockets.serve = serve
    if not met:
        server.stop()
        raise RuntimeError(
            f"viser {viser.__version__} makes its server in a way that is not known here, so that it would answer to "
            "any site"
        )
    return server
