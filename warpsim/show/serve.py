# SPDX-License-Identifier: Apache-2.0
"""A folder as a web page: for this machine, or behind a token for others."""

import functools
import hmac
import http.server
import ipaddress
import secrets
import socket
from collections.abc import Callable


def serve(folder: str, port: int, host: str, ready: Callable[[str], None]) -> None:
    """Serve a folder until Ctrl-C; `ready(link)` is called once it is there.

    Listening elsewhere than on this machine alone, everything is under a path that nobody can guess, and the rest is refused.
    Raises `OSError` where it cannot listen.
    """
    token = "" if is_loopback(host) else f"/{secrets.token_urlsafe(16)}"

    class Handler(http.server.SimpleHTTPRequestHandler):
        def translate_path(self, path: str) -> str:
            return super().translate_path(path[len(token) :])

        def send_head(self):
            if token and not hmac.compare_digest(self.path[: len(token) + 1].encode(), f"{token}/".encode()):
                self.send_error(403)
                return None
            return super().send_head()

        def log_message(self, *arguments) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    try:
        server = Server((host, port), functools.partial(Handler, directory=folder))
    except OSError as error:
        why = error.strerror or error
        raise OSError(f"cannot listen at {host}, port {port}: {why}; give another --port or --host") from error
    with server:
        name = f"[{host}]" if ":" in host else host
        try:
            ready(f"http://{name}:{server.server_address[1]}{token}/")
            server.serve_forever()
        except KeyboardInterrupt:
            pass


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, of whatever address
        return False
