"""The package without its extras, installed into an environment of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment: the wheel and its dependencies of uv.lock, without extras."""
    uv = shutil.which("uv") or str(ROOT / ".tools" / "bin" / "uv")  # `make setup` puts it there
    directory = tmp_path_factory.mktemp("bare") / "venv"
    command = [uv, "sync", "--frozen", "--no-dev", "--no-editable", "--quiet", "--project", str(ROOT)]
    environment = {**os.environ, "UV_PROJECT_ENVIRONMENT": str(directory)}
    environment.pop("VIRTUAL_ENV", None)
    subprocess.run(command, env=environment, check=True)
    return directory


def run(bare: Path, tmp_path: Path, code: str) -> list[str]:
    """Runs code in a directory without the sources, and returns the lines of its output."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MILLSTREAM_", "PYTHON"))}
    command = [str(bare / "bin" / "python"), "-c", textwrap.dedent(code)]
    done = subprocess.run(command, cwd=tmp_path, env=kept, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_all_modules_are_imported_except_those_of_kafka_the_prompt_and_the_server(bare: Path, tmp_path: Path) -> None:
    lines = run(
        bare,
        tmp_path,
        """
        import importlib, pkgutil
        import millstream
        # Imported with a cluster only, with a terminal only, and by a server only: opening the log, the shell and
        # `millstream serve` name the extra.
        kafka = {"millstream.log.kafka", "millstream.runtime.spark.connector"}
        prompt = {"millstream.sql.shell.completion", "millstream.sql.shell.prompt"}
        def names(path, prefix):
            for module in pkgutil.iter_modules(path, prefix):
                if module.name not in kafka | prompt | {"millstream.serve"}:
                    yield module.name
                    if module.ispkg:
                        yield from names(importlib.import_module(module.name).__path__, module.name + ".")
        imported = [importlib.import_module(name) for name in names(millstream.__path__, "millstream.")]
        print(millstream.__file__)
        print(len(imported))
        for library in ("fastavro", "jsonschema_rs", "grpc_tools", "confluent_kafka"):
            print(importlib.util.find_spec(library))
        """,
    )
    assert lines[0].startswith(str(bare))
    assert int(lines[1]) > 200
    assert lines[2:] == ["None"] * 4


def test_a_missing_extra_is_an_error_with_its_command(bare: Path, tmp_path: Path) -> None:
    lines = run(
        bare,
        tmp_path,
        """
        from pathlib import Path
        from millstream import avro, json_schema, protobuf
        from millstream.errors import SetupError
        from millstream.log.opening import log_location, open_location
        from millstream.registry import Schema, open_registry
        registry = open_registry({}, Path("data"))
        for use in (
            lambda: avro('"int"'),
            lambda: json_schema("{}"),
            lambda: protobuf("message A {}"),
            lambda: registry.register("a", Schema("{}", "JSON")),
            lambda: registry.register("a", Schema("message A {}", "PROTOBUF")),
            lambda: open_registry({"schema.registry.url": "http://127.0.0.1:1"}).subjects(),
            lambda: open_location(log_location({"bootstrap.servers": "127.0.0.1:1"})),
        ):
            try:
                use()
            except SetupError as error:
                print(error.hint)
        """,
    )
    extras = ("avro", "jsonschema", "protobuf", "jsonschema", "protobuf", "registry", "kafka")
    assert lines == [f'pip install "millstream[{extra}]"' for extra in extras]


def test_the_embedded_registry_and_a_command_need_no_extra(bare: Path, tmp_path: Path) -> None:
    lines = run(
        bare,
        tmp_path,
        r"""
        import sys
        from pathlib import Path
        from millstream.cli.main import main
        Path("a.avsc").write_text('"long"')
        data = ["--data", "data"]
        assert main(["schemas", "register", "a-value", "a.avsc", *data]) == 0
        assert main(["topics", "create", "a", *data]) == 0
        sys.stderr = sys.stdout
        print(main(["produce", "a", "--value", "avro", "--schema", "a.avsc", *data]))
        print(main(["serve", "--port", "0", *data]))
        """,
    )
    assert lines[0] == "1"
    assert lines[-5:-3] == ['hint: pip install "millstream[avro]"', "1"]
    assert lines[-2:] == ['hint: pip install "millstream[serve]"', "1"]
