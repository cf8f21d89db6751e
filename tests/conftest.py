from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

from millstream.runtime.spark.archive import find_java

# A part of a script that tests write and run. It cannot be imported here.
collect_ignore = ["runtime/kinds_application.py"]

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("quick", deadline=None, max_examples=30)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "local"))


# A shell without job control starts background commands with SIGINT ignored, and processes that tests start inherit
# it: a test that interrupts one would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _begin_child() -> None:
    gc.freeze()
    gc.enable()


# Earlier tests leave clients of Kafka in reference cycles. A garbage collection in a forked child would destroy them,
# and librdkafka, whose threads the child does not have, crashes the child. The child keeps all that it inherits.
os.register_at_fork(before=gc.disable, after_in_parent=gc.enable, after_in_child=_begin_child)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Runs long tests first, so that no worker has one left when the others have ended.

    Tests with Spark are first, and the tests of one worker share a session. The timeout of a test tells its length.
    """

    def order(item: pytest.Item) -> tuple[bool, float, bool]:
        timeout = item.get_closest_marker("timeout")
        seconds = 0.0 if timeout is None else float(timeout.args[0])
        return item.get_closest_marker("spark") is None, -seconds, item.get_closest_marker("slow") is None

    items.sort(key=order)


@pytest.fixture(scope="session", autouse=True)
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """On a machine without Java, a script that prints a version: commands check it also if they start no JVM."""
    with pytest.MonkeyPatch.context() as patch:
        if find_java() is None:
            home = tmp_path_factory.mktemp("java")
            (home / "bin").mkdir()
            (home / "bin" / "java").write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
            (home / "bin" / "java").chmod(0o755)
            patch.setenv("JAVA_HOME", str(home))
        yield


@pytest.fixture(autouse=True)
def script() -> Iterator[None]:
    """Restores the script and the search path of this process.

    A command that loads an application sets both, and processes that later tests start run the script.
    """
    main, path = sys.modules["__main__"], sys.path.copy()
    file = getattr(main, "__file__", None)
    yield
    sys.path[:] = path
    if file is not None:
        main.__file__ = file
    elif hasattr(main, "__file__"):
        del main.__file__
