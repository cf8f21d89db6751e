"""Modules beside the script: the driver sends their source, and other processes import them under their own names.

A class or a function of such a module is then the same object for everything that runs in a process, as it is in the
driver. The script itself is not imported anywhere else: what it defines is sent by value (see the module `pickling`).
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from millstream.errors import RunError


class Source(NamedTuple):
    """The source of a module.

    Attributes:
        text: Its bytes.
        file: Its path in the driver, for tracebacks.
        is_package: Whether it can have submodules.
    """

    text: bytes
    file: str
    is_package: bool


def modules_beside_script() -> tuple[dict[str, Source], list[ModuleType]]:
    """Returns the sources of the loaded modules beside the script, and the modules that go by value as the script does.

    These are the script itself, where the command line has loaded it as a module, and modules whose import has not
    ended: they may be starting the application, and would start it again wherever they are imported.
    """
    main = sys.modules.get("__main__")
    script = os.path.abspath(getattr(main, "__file__", None) or "__main__.py")  # noqa: PTH100  (as modules have it)
    by_value: list[ModuleType] = []
    sources: dict[str, Source] = {}
    for name, module in list(sys.modules.items()):
        if not _is_beside(script, name, module):
            continue
        if os.path.abspath(str(module.__file__)) == script or _is_being_imported(module):  # noqa: PTH100
            by_value.append(module)
        elif (source := _source_of(module)) is not None:
            sources[name] = source
    for name in list(sources):
        sources |= _parents(name, sources)
    return sources, by_value


def _is_beside(script: str, name: str, module: Any) -> bool:
    file = getattr(module, "__file__", None)
    if file is None or name in {"__main__", "__mp_main__"} or name.partition(".")[0] == "millstream":
        return False
    path = os.path.abspath(file)  # noqa: PTH100
    installed = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)
    is_installed = path.startswith(sys.prefix + os.sep) or any(part in path for part in installed)
    return path.startswith(os.path.dirname(script) + os.sep) and not is_installed  # noqa: PTH120


def _is_being_imported(module: ModuleType) -> bool:
    return bool(getattr(module.__spec__, "_initializing", False))


_sent: dict[str, tuple[ModuleSpec, Source]] = {}
"""Sources as first sent: a restart sends the code that the driver runs, even if the files were edited since."""


def _source_of(module: ModuleType) -> Source | None:
    """Returns the source of a module, None if it was not made from a file with source."""
    spec = module.__spec__
    if spec is None or spec.origin is None or not isinstance(spec.loader, SourceFileLoader | _Loader):
        return None
    sent = _sent.get(spec.name)
    if sent is None or sent[0] is not spec:
        try:
            text = spec.loader.get_data(spec.origin)
        except OSError:
            return None
        sent = _sent[spec.name] = (spec, Source(text, spec.origin, spec.submodule_search_locations is not None))
    return sent[1]


def _parents(name: str, sources: dict[str, Source]) -> dict[str, Source]:
    """The packages that a module is in, as far as they are not among the sources: a folder needs no ``__init__``."""
    packages: dict[str, Source] = {}
    while name := name.rpartition(".")[0]:
        package = sys.modules.get(name)
        if name not in sources and package is not None:
            folder = next(iter(package.__path__), "")
            empty = Source(b"", str(Path(folder) / "__init__.py"), is_package=True)
            packages[name] = _source_of(package) or empty
    return packages


class _Loader(SourceLoader):
    """Makes a module from a source that was sent."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def get_filename(self, fullname: str) -> str:
        return self.source.file

    def get_data(self, path: str | bytes) -> bytes:
        return self.source.text if path == self.source.file else Path(os.fsdecode(path)).read_bytes()


class _Finder(MetaPathFinder):
    """Finds the modules whose sources were sent."""

    def __init__(self) -> None:
        self.sources: dict[str, Source] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns how to load a module, None if its source was not sent."""
        source = self.sources.get(fullname)
        if source is None:
            return None
        folders = [str(Path(source.file).parent)] if source.is_package else None
        return spec_from_file_location(
            fullname, source.file, loader=_Loader(source), submodule_search_locations=folders
        )


_finder = _Finder()


_unpacking = False


@contextlib.contextmanager
def sources_installed(sources: dict[str, Source]) -> Iterator[None]:
    """Lets modules be imported from sources, from now on. In the block, no application can be started.

    Raises:
        RunError: A module has the name of another one, which is loaded here.
    """
    global _unpacking  # noqa: PLW0603  (a process unpacks one program at a time)
    _install(sources)
    _unpacking = True
    try:
        yield
    finally:
        _unpacking = False


def refuse_start_in_import() -> None:
    """Makes sure that no module which is imported for an application starts an application.

    Raises:
        RunError: A program is being unpacked.
    """
    if _unpacking:
        raise RunError(
            "a module starts an application when it is imported where the tasks of an application run",
            hint='put the start of the application below: if __name__ == "__main__":',
        )


def _install(sources: dict[str, Source]) -> None:
    """Adds sources to those that are installed.

    If one of the modules was imported here from another source, all of them are imported again when they are next
    needed, since they refer to each other.
    """
    installed = _finder.sources
    if any(installed.get(name, source).text != source.text for name, source in sources.items()):
        for name in installed:
            if _is_sent(sys.modules.get(name)):
                del sys.modules[name]
        installed.clear()
    installed |= sources
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    for name, source in sources.items():
        _check_name(name, source)


def _is_sent(module: ModuleType | None) -> bool:
    return isinstance(getattr(getattr(module, "__spec__", None), "loader", None), _Loader)


def _check_name(name: str, source: Source) -> None:
    module = sys.modules.get(name)
    if module is None or _is_sent(module) or not source.text:
        return
    file = getattr(module, "__file__", None)
    with contextlib.suppress(OSError):
        if file is not None and Path(file).read_bytes() == source.text:
            return
    raise RunError(
        f"the module {name} ({source.file}) has the name of another module where the application runs: "
        f"{file or 'a built-in one'}",
        hint="rename the one beside the script",
    )
