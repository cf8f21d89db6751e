"""The file of the embedded registry."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path

import pytest
from tests.registry.test_registry import ADDRESS, NOTED, ORDER, OTHER, customer

from millstream.errors import IncompatibleSchemaError, InvalidSchemaError, RegistryError, UnknownSchemaError
from millstream.registry import Reference, Schema, open_registry
from millstream.registry.embedded import EmbeddedRegistry


def test_reading_creates_no_files(tmp_path: Path) -> None:
    registry = EmbeddedRegistry(tmp_path / "data")
    assert registry.subjects() == []
    assert registry.compatibility() == "BACKWARD"
    assert registry.problems("orders-value", ORDER) == []
    with pytest.raises(UnknownSchemaError, match="it has no subjects yet"):
        registry.latest("orders-value")
    with pytest.raises(UnknownSchemaError, match="there is no schema with the id 1"):
        registry.schema(1)
    assert not (tmp_path / "data").exists()


def test_the_file_is_private_and_another_registry_reads_it(tmp_path: Path) -> None:
    EmbeddedRegistry(tmp_path / "data").register("orders-value", ORDER)
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "data" / "schemas.db").stat().st_mode) == 0o600
    assert EmbeddedRegistry(tmp_path / "data").latest("orders-value").schema == ORDER


def test_ids_count_from_one_and_are_not_used_again(embedded: EmbeddedRegistry) -> None:
    assert embedded.register("a-value", ORDER) == 1
    assert embedded.register("b-value", OTHER) == 2
    embedded.delete("b-value", permanent=True)
    with pytest.raises(UnknownSchemaError):
        embedded.schema(2)
    assert embedded.register("c-value", NOTED) == 3
    assert embedded.register(":.staging:a-value", ORDER) == 1


def test_a_schema_with_two_subjects_outlives_one_of_them(embedded: EmbeddedRegistry) -> None:
    embedded.register("a-value", ORDER)
    embedded.register("b-value", ORDER)
    embedded.delete("a-value", permanent=True)
    assert embedded.schema(1) == ORDER


def test_the_default_context_can_be_named(embedded: EmbeddedRegistry) -> None:
    embedded.register(":.:orders-value", ORDER)
    assert embedded.subjects() == ["orders-value"]
    for name in ("", ":.staging:", "a\nb"):
        with pytest.raises(RegistryError, match="is not a name of a subject"):
            embedded.register(name, ORDER)


def test_a_reference_to_the_latest_version_is_fixed(embedded: EmbeddedRegistry) -> None:
    embedded.register("address-value", ADDRESS)
    embedded.register("customer-value", customer(Reference("shop.Address", "address-value", -1)))
    assert embedded.latest("customer-value").schema == customer(Reference("shop.Address", "address-value", 1))


def test_references_of_references_are_followed(embedded: EmbeddedRegistry) -> None:
    embedded.register("address-value", ADDRESS)
    to_address = Reference("shop.Address", "address-value", 1)
    embedded.register("customer-value", customer(to_address))
    fields = '{"name":"c","type":"shop.Customer"},{"name":"a","type":"shop.Address"}'
    text = f'{{"type":"record","name":"Order","fields":[{fields}]}}'
    order = Schema(text, references=(Reference("shop.Customer", "customer-value", 1), to_address))
    embedded.register("orders-value", order, normalize=True)
    assert embedded.lookup("orders-value", order, normalize=True).version == 1
    moved = ADDRESS.text.replace('"string"', '"int"')
    embedded.set_compatibility("NONE", "address-value")
    embedded.register("address-value", Schema(moved))
    embedded.register("home-value", customer(to_address))
    (problem,) = embedded.problems("home-value", customer(Reference("shop.Address", "address-value", 2)))
    assert problem == "to.city: version 1 has string, which the new schema cannot read as int"


def test_a_reference_has_the_type_of_the_schema(embedded: EmbeddedRegistry) -> None:
    with pytest.raises(InvalidSchemaError, match="there is no schema type 'XML'"):
        embedded.register("orders-value", Schema("<a/>", "XML"))  # type: ignore[arg-type]


def test_another_version_of_the_format_is_refused(embedded: EmbeddedRegistry, tmp_path: Path) -> None:
    embedded.register("orders-value", ORDER)
    path = tmp_path / "data" / "schemas.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 7")
    with pytest.raises(RegistryError, match="has format version 7; this version reads 1"):
        embedded.subjects()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA application_id = 7")
    with pytest.raises(RegistryError, match="is not a schema registry of Millstream"):
        embedded.subjects()


def test_damage_is_an_error(embedded: EmbeddedRegistry, tmp_path: Path) -> None:
    embedded.register("orders-value", ORDER)
    path = tmp_path / "data" / "schemas.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE schemas SET text = replace(text, 'long', 'int')")
        connection.commit()
    with pytest.raises(RegistryError, match="a schema does not match its checksum"):
        EmbeddedRegistry(tmp_path / "data").schema(1)
    path.write_bytes(b"x" * 10_000)
    with pytest.raises(RegistryError, match=r"schemas\.db is damaged"):
        embedded.subjects()


def test_a_directory_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    directory.chmod(0o777)
    with pytest.raises(RegistryError, match="writable by all users"):
        EmbeddedRegistry(directory).register("orders-value", ORDER)


def _register_some(directory: Path, first: int) -> None:
    registry = EmbeddedRegistry(directory)
    for number in range(first, first + 8):
        registry.register(f"subject-{number % 12}", Schema(f'{{"type":"fixed","name":"F","size":{number % 12}}}'))


def test_several_processes_register_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_register_some, args=(tmp_path / "data", number * 4)) for number in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(50)
        assert process.exitcode == 0
    registry = EmbeddedRegistry(tmp_path / "data")
    versions = [registry.latest(name) for name in registry.subjects()]
    assert len(versions) == 12
    assert {version.version for version in versions} == {1}
    assert sorted(version.id for version in versions) == list(range(1, 13))


def test_threads_and_forks_share_a_registry(embedded: EmbeddedRegistry) -> None:
    embedded.register("orders-value", ORDER)
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            embedded.subjects()

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for number in range(5):
            pid = os.fork()
            if pid == 0:
                os._exit(embedded.register(f"fork-{number}", Schema(f'{{"type":"fixed","name":"F","size":{number}}}')))
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == number + 2
    finally:
        stop.set()
        thread.join()


def test_of_two_incompatible_schemas_at_once_one_is_registered(embedded: EmbeddedRegistry) -> None:
    outcomes = []

    def register(schema: Schema) -> None:
        try:
            outcomes.append(embedded.register("orders-value", schema))
        except IncompatibleSchemaError:
            outcomes.append(0)

    threads = [threading.Thread(target=register, args=(schema,)) for schema in (ORDER, OTHER)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [0, 1]


def test_the_configuration_names_the_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MILLSTREAM_PROFILE", "MILLSTREAM_BOOTSTRAP_SERVERS", "MILLSTREAM_SCHEMA_REGISTRY_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MILLSTREAM_DATA", str(tmp_path / "environment"))
    for directory, registry in {
        "given": open_registry({"state.dir": str(tmp_path / "configured")}, tmp_path / "given"),
        "configured": open_registry({"state.dir": str(tmp_path / "configured")}, None),
        "environment": open_registry({}),
    }.items():
        registry.register("orders-value", ORDER)
        assert (tmp_path / directory / "schemas.db").exists()
