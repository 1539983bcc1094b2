# SPDX-License-Identifier: Apache-2.0
"""Serve a folder as a web page: on this machine only, or to others behind a token."""

import functools
import hmac
import http.server
import ipaddress
import re
import secrets
import socket
from collections.abc import Callable


def serve(folder: str, port: int, host: str, ready: Callable[[str], None]) -> None:
    """Serve a folder until Ctrl-C; `ready(link)` is called once the page is up.

    On this machine only, requests under another host name are refused (`refusal`). Elsewhere everything is under an
    unguessable path, and all other requests are refused. Raises `OSError` where the port cannot be opened.
    """
    token = "" if is_loopback(host) else f"/{secrets.token_urlsafe(16)}"

    class Handler(http.server.SimpleHTTPRequestHandler):
        def translate_path(self, path: str) -> str:
            return super().translate_path(path[len(token) :])

        def send_head(self):
            why = "" if token else refusal(self.headers.get_all("Host", []), self.headers.get_all("Origin", []))
            if why:
                self.send_error(403, explain=why)
                return None
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


def refusal(hosts: list[str], origins: list[str]) -> str:
    """Why a page of this machine refuses a request with these `Host` and `Origin` headers; "" where it answers.

    A browser sends the host name that its page asked for. Two kinds of requests are refused: a host name other than
    this machine's, which somebody has pointed to this address (DNS rebinding), and a page of another origin, because
    any site may open a websocket. Any port is allowed, as through `ssh -L`. Requests without `Origin` do not come from
    a page.
    """
    if len(hosts) != 1 or not is_loopback(_name(hosts[0])):
        return (
            "this page answers to localhost, 127.0.0.1 and [::1], "
            f"not to {', '.join(hosts)[:80] or 'a request without Host'}"
        )
    for origin in origins:
        scheme, _, place = origin.partition("://")
        if scheme not in ("http", "https") or place.lower() != hosts[0].lower():
            return f"this page answers to pages of its own, not to those of {origin[:80]}"
    return ""


def _name(host: str) -> str:
    """The host name in a `Host` header, without its port; "" where the header is invalid."""
    found = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^:@/\s]+))(?::\d{1,5})?", host)
    return "" if found is None else (found.group(1) or found.group(2)).lower()


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, not an address
        return False
