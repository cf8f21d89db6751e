"""The requests of the page about stores have the shown answers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.serve.servers import start_server

from millstream.log import ProducerRecord, open_log

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "query-stores.md"
REQUEST = re.compile(r"^(curl .*)\n# (.*)$", re.MULTILINE)
ORDERS = ((b"north", 3), (b"south", 5), (b"north", 4))


def plain(answer: str) -> str:
    """An answer without the numbers that vary."""
    return re.sub(r'"(position|committed|age_ms)":\d+', r'"\1":0', answer)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_requests_of_the_page_have_the_shown_answers(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    code = re.search(r"into `sales\.py`:\s*```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    requests = REQUEST.findall(text)
    assert code is not None
    assert len(requests) >= 6
    data = tmp_path / "data"
    with open_log(data) as log:
        log.create_topic("orders")
        log.produce("orders", [ProducerRecord(key, value.to_bytes(8), 60_000) for key, value in ORDERS])
    (tmp_path / "sales.py").write_text(code[1], encoding="utf-8")
    script = "from sales import app; app.run(mode='local', until_caught_up=True)"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MILLSTREAM")}
    environment |= {"MILLSTREAM_DATA": str(data), "MILLSTREAM_STATUS": "none"}
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, check=True)
    with start_server(data) as server:
        environment["TOKEN"] = server.viewer.token or ""
        for request, shown in requests:
            command = request.replace("curl ", "curl -sS --noproxy '*' ", 1).replace(":8088/", f":{server.port}/")
            done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, check=True)
            assert plain(done.stdout) == plain(shown), request
