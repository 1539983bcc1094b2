# SPDX-License-Identifier: Apache-2.0
"""The page of `warpsim view`: for this machine, and behind a token for others."""

import contextlib
import queue
import socket
import threading
import urllib.error
import urllib.request

import pytest

from warpsim.show.serve import refusal, serve


def fetched(link: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(link, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])
def test_elsewhere_than_here_a_token_is_needed(tmp_path, host):
    """On this machine the page is at /, at any other address under its token alone; nothing outside of the folder is served."""
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "index.html").write_text("robot")
    (tmp_path / "secret").write_text("x")
    links: queue.Queue = queue.Queue()
    threading.Thread(target=serve, args=(str(tmp_path / "page"), 0, host, links.put), daemon=True).start()
    link = links.get(timeout=10).replace("0.0.0.0", "127.0.0.1")
    root = link if host != "0.0.0.0" else link.rsplit("/", 2)[0] + "/"
    assert fetched(link) == (200, "robot") and fetched(link + "index.html") == (200, "robot")
    assert fetched(link + "../secret")[0] == 404 and fetched(link + "%2e%2e/secret")[0] == 404
    if host == "0.0.0.0":
        assert len(link) > len(root) + 20
        for wrong in ("", "index.html", "x" * 22 + "/", link[len(root) : -2] + "/", link[len(root) : -1] + "x/"):
            assert fetched(root + wrong)[0] == 403, wrong


def test_a_port_in_use_is_said():
    """One line that names the port."""
    with contextlib.closing(__import__("socket").create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"port {port}.*give another --port"):
            serve(".", port, "127.0.0.1", print)


@pytest.mark.parametrize(
    ("hosts", "origins", "answered"),
    [
        *(
            (["localhost:8080"], [], True),
            (["127.0.0.1"], [], True),
            (["[::1]:8080"], [], True),
            (["LOCALHOST:1"], [], True),
        ),
        *((["localhost:9000"], ["http://localhost:9000"], True), (["[::1]:80"], ["http://[::1]:80"], True)),
        *(
            ([], [], False),
            (["evil.example:8080"], [], False),
            (["localhost", "localhost"], [], False),
            ([""], [], False),
        ),
        *(
            (["localhost.evil.example"], [], False),
            (["evil@localhost"], [], False),
            (["127.0.0.1.nip.io:80"], [], False),
        ),
        *((["192.168.1.5:8080"], [], False), (["::1"], [], False), (["localhost:80/x"], [], False)),
        *((["localhost:80"], ["http://evil.example"], False), (["localhost:80"], ["null"], False)),
        *((["localhost:80"], ["http://localhost:81"], False), (["localhost:80"], ["http://127.0.0.1:80"], False)),
        (["localhost:80"], ["http://localhost:80", "http://evil.example"], False),
        (["localhost:80"], ["http://localhost:80.evil.example"], False),
    ],
)
def test_a_page_of_this_machine_answers_to_its_own_names_and_pages(hosts, origins, answered):
    """A name that was turned to this machine, and a page of another origin, are refused; any port of this machine will do."""
    assert (refusal(hosts, origins) == "") == answered


def status(port: int, *lines: str) -> str:
    """What a server at 127.0.0.1 answers to GET / with these header lines."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as found:
        found.sendall("\r\n".join(["GET / HTTP/1.1", *lines, "Connection: close", "", ""]).encode())
        return found.recv(4096).split(b" ")[1].decode()


UPGRADE = ("Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13")


def test_the_page_of_a_file_answers_to_its_own_names(tmp_path):
    """DNS rebinding: a site whose name was turned to this machine reads nothing."""
    links: queue.Queue = queue.Queue()
    threading.Thread(target=serve, args=(str(tmp_path), 0, "127.0.0.1", links.put), daemon=True).start()
    port = int(links.get(timeout=10).split(":")[2].strip("/"))
    assert status(port, f"Host: localhost:{port}") == status(port, "Host: 127.0.0.1") == "200"
    assert (
        status(port, f"Host: evil.example:{port}")
        == status(port, "Host: localhost", "Origin: http://evil.example")
        == "403"
    )


def test_the_live_page_answers_to_its_own_names_and_pages():
    """The page and its websocket, which moves the robots: a name that was turned to this machine, and other sites, are refused."""
    pytest.importorskip("viser")
    from warpsim.show.live.shown import open_server

    server, url = open_server("127.0.0.1", 0)
    try:
        port = int(url.rsplit(":", 1)[1])
        for name in (f"localhost:{port}", f"127.0.0.1:{port}", "[::1]:99"):
            headers = (f"Host: {name}", *UPGRADE, "Sec-WebSocket-Protocol: viser-v0")
            assert status(port, f"Host: {name}") == "200"
            assert handshake(port, *headers, f"Origin: http://{name}") == handshake(port, *headers) == "101"
            assert handshake(port, *headers, "Origin: http://evil.example") == "403"
            assert handshake(port, *headers, "Origin: null") == "403"
        assert status(port, f"Host: evil.example:{port}") == "403"
        assert handshake(port, f"Host: evil.example:{port}", *UPGRADE, f"Origin: http://evil.example:{port}") == "403"
    finally:
        server.stop()


def handshake(port: int, *lines: str) -> str:
    """What a server at 127.0.0.1 answers to the beginning of a websocket."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as found:
        found.sendall("\r\n".join(["GET / HTTP/1.1", *lines, "Connection: Upgrade", "", ""]).encode())
        return found.recv(4096).split(b" ")[1].decode()
