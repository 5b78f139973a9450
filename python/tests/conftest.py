"""A server of the program `braidftp` for the tests of the client."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest


@dataclass
class Server:
    """A server on this machine."""

    url: str
    folder: pathlib.Path
    options: dict[str, object]


def program() -> str:
    """The program that is named by the environment, is on the PATH, or was built here."""
    built = pathlib.Path(__file__).parents[2] / "target" / "release" / "braidftp"
    found = os.environ.get("BRAIDFTP_PROGRAM") or shutil.which("braidftp") or shutil.which(built)
    if found is None:
        leave_out = pytest.fail if "BRAIDFTP_REQUIRE_PEERS" in os.environ else pytest.skip
        leave_out("LEFT OUT: no program braidftp: `cargo build --release`, or name it by BRAIDFTP_PROGRAM")
    return found


@pytest.fixture
def server(tmp_path: pathlib.Path) -> Iterator[Server]:
    folder = tmp_path / "served"
    folder.mkdir()
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    words = [program(), "serve", str(folder), "--writable", "--listen", "ftp+sctp://127.0.0.1:0/"]
    running = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    try:
        assert running.stdout is not None
        said, port, pin = "", None, None
        for line in running.stdout:
            said += line
            port = port or re.search(r"127\.0\.0\.1:(\d+)", line)
            pin = pin or re.search(r"SHA256:\S+", line)
            if port and pin:
                break
        assert port and pin, f"the server said:\n{said}"
        yield Server(f"ftp+sctp://127.0.0.1:{port[1]}/", folder, {"pin": pin[0], "timeout": 60})
    finally:
        running.terminate()
        running.wait(30)
        if running.stdout is not None:
            running.stdout.close()
