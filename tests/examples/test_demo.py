"""The README's demo, in a fresh clone of the project."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
from tests.fault.killing import MARK, processes, wait_until_gone

ROOT = Path(__file__).parents[2]
PATIENCE = 900.0
"""The seconds that the demo runs after its first results."""

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]


def clone(directory: Path) -> None:
    """Copies the files of the project, without generated ones."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).exists():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, directory / name)


def words(output: str) -> list[str]:
    return re.findall(r"words: (\w+ \d+)", output)


def assert_page_moves(output: str) -> None:
    """Asserts that the server whose address is printed shows two applications that process records."""
    match = re.search(r"the console is at (http://\S+)#code=(\S+)", output)
    assert match is not None, output
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    body, headers = json.dumps({"code": match[2]}).encode(), {"Content-Type": "application/json"}
    opener.open(urllib.request.Request(f"{match[1]}api/v1/session", body, headers)).close()
    deadline = time.monotonic() + PATIENCE
    while True:
        with opener.open(f"{match[1]}api/v1/applications") as answer:
            applications = json.load(answer)["applications"]
        moving = {each["id"] for each in applications if each["state"] == "RUNNING" and each["rate_in"] > 0}
        if moving == {"word-count", "stock-statistics"}:
            return
        assert time.monotonic() < deadline, applications
        time.sleep(0.2)


def test_make_demo_in_a_fresh_clone(tmp_path: Path) -> None:
    clone(tmp_path / "clone")
    ours = ("VIRTUAL_ENV", "PYSPARK", "MAKE", "MFLAGS", "ARGS")  # `make test ARGS=...` is not for this make
    environment = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    environment.setdefault("UV_CACHE_DIR", str(caches / "uv"))  # to avoid a second download
    environment |= {MARK: tmp_path.name, "XDG_CACHE_HOME": str(tmp_path / "cache"), "UV_LINK_MODE": "copy"}
    printed = tmp_path / "said"
    with printed.open("wb") as file:
        make = subprocess.Popen(
            ["make", "demo"],
            cwd=tmp_path / "clone",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + PATIENCE
        while len(set(words(printed.read_text()))) < 2:
            assert make.poll() is None, printed.read_text()
            assert time.monotonic() < deadline, printed.read_text()
            time.sleep(0.2)
        seen = len(set(words(printed.read_text())))
        while len(set(words(printed.read_text()))) <= seen + 5:  # the results change with nearly every line
            assert make.poll() is None, printed.read_text()
            assert time.monotonic() < deadline, printed.read_text()
            time.sleep(0.2)
        assert_page_moves(printed.read_text())
        os.killpg(make.pid, signal.SIGINT)  # as a terminal does
        assert make.wait(60) in {0, -signal.SIGINT}, printed.read_text()  # SIGINT ends make itself
    finally:
        if make.poll() is None:
            for pid in processes(tmp_path.name):
                os.kill(pid, signal.SIGKILL)
            make.wait(60)  # otherwise the next test gets the warning about a running process
    wait_until_gone(tmp_path.name)
    output = printed.read_text()
    assert "What to try next" in output
    assert not re.search(r"error|exception|traceback|warn", output, re.IGNORECASE), output
    print(re.findall(r"^ *([\d.]+) s .*\n *words", output, re.MULTILINE)[:1], "seconds to the first results")
