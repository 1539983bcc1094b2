# SPDX-License-Identifier: Apache-2.0
"""Where a live page may be: at an address of this machine alone, at a port that is free."""

import os
import socket

from warpsim.checks import short, whole
from warpsim.show.serve import is_loopback


def checked_address(host: str, port: int) -> tuple[str, int]:
    """Host and a free port, any where `port` is 0.

    Raises `ValueError` for a host that others reach (whoever opens the page may move the robots) and `OSError` for a port in use.
    """
    if not isinstance(host, str) or not is_loopback(host):
        raise ValueError(
            f"host is {short(host)}; a live page takes orders from whoever opens it, so it listens at this machine alone "
            "(127.0.0.1, ::1 or localhost); from another one use ssh -L"
        )
    if whole(port, "port", 0) >= 1 << 16:
        raise ValueError(f"port is {port}; give 0 to 65535")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        if os.name == "posix":  # a port that was closed a moment ago is free
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            why = error.strerror or error
            raise OSError(
                f"cannot listen at {host}, port {port}: {why}; give another port, or 0 for a free one"
            ) from error
        return host, probe.getsockname()[1]
