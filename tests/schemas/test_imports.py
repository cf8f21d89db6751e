"""The libraries of the formats are optional, and are imported when a serde first needs them."""

from __future__ import annotations

from tests.schemas.test_avro_hostile import in_subprocess

_BLOCKED = """
    import sys
    for name in ("fastavro", "jsonschema_rs", "grpc_tools", "confluent_kafka"):
        sys.modules[name] = None
"""


def test_everything_can_be_imported_without_the_optional_libraries() -> None:
    out = in_subprocess(
        _BLOCKED
        + """
    import importlib, pkgutil
    import millstream, millstream.registry, millstream.schemas
    for package in (millstream.schemas, millstream.registry):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            importlib.import_module(module.name)
    from millstream import avro, json_schema, protobuf
    from millstream.errors import SetupError
    for make in (avro, json_schema, lambda: protobuf("message A {}")):
        try:
            make()
        except SetupError as error:
            print(error.hint)
    """
    )
    extras = ("avro", "jsonschema", "protobuf")
    assert out.splitlines() == [f'pip install "millstream[{extra}]"' for extra in extras]


def test_millstream_imports_no_format() -> None:
    out = in_subprocess("""
    import sys
    import millstream
    names = ("fastavro", "jsonschema_rs", "google.protobuf", "grpc_tools", "confluent_kafka", "millstream.schemas")
    print([name for name in names if name in sys.modules])
    """)
    assert out == "[]\n"
