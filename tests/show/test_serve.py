# SPDX-License-Identifier: Apache-2.0
"""The page of `warpsim view`: for this machine, and behind a token for others."""

import contextlib
import queue
import threading
import urllib.error
import urllib.request

import pytest

from warpsim.show.serve import serve


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
