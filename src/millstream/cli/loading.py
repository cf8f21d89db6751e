"""Loads the application that an argument names: ``module:name``, ``file.py:name`` or ``file.py``."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import tomllib
import traceback
from collections.abc import Iterable, Iterator, Mapping
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from millstream.cli.exits import CommandError
from millstream.config import Config
from millstream.dsl.app import App
from millstream.errors import ConfigError, MillstreamError, SqlError, TopologyError, suggestion
from millstream.text.escaping import error_text

# The topology depends on these keys, so they cannot change after it is built.
_BUILT_IN = frozenset({"default.key.serde", "default.value.serde", "ensure.explicit.internal.resource.naming"})


def load(target: str, config: Mapping[str, Any] | None = None, functions: Iterable[Path] = ()) -> App:
    """Loads an application, and overrides some of its configuration.

    Args:
        target: The application, a SQL script, or a TOML file with connectors.
        config: Configuration that overrides the application's own.
        functions: Python files that define functions of SQL.

    Raises:
        CommandError: There is no such file, module or application, or loading it fails. The message contains the line
            of user code.
        ConfigError: A key or a value of the configuration is invalid.
    """
    for file in functions:
        _load_file(file)
    if target.endswith(".sql"):
        return _load_sql(Path(target), config)
    if target.endswith(".toml"):
        return _load_connectors(Path(target), config)
    place, name = _split(target)
    if Path(place).is_dir() and not place.isidentifier():  # an identifier may name a package
        raise CommandError(f"{place} is a directory", hint="give the path of a Python file, or module:name")
    module = _load_file(Path(place)) if place.endswith(".py") else _load_module(place)
    app = _find(module, name, target)
    if config:
        fixed = [key for key in config if key.replace("_", ".") in _BUILT_IN]
        if fixed:
            raise ConfigError(f"{fixed[0]}: it cannot be changed after the topology is built", hint="set it in App(…)")
        app.config = Config({**app.config.explicit, **config})
    return app


def _load_sql(path: Path, config: Mapping[str, Any] | None) -> App:
    """Loads a SQL script; the application has the name of the file, and skips records that it cannot read."""
    try:
        script = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read: {error}", hint="give the path of a SQL script") from error
    app = App(path.stem, config={"deserialization.exception.handler": "continue", **(config or {})})
    try:
        app.sql(script, source=path.name)
    except SqlError as error:
        raise CommandError(f"{path}: {error}") from error
    return app


def _load_connectors(path: Path, config: Mapping[str, Any] | None) -> App:
    """Loads a file with connectors; the application has the name of the file unless the file has one."""
    from millstream.connect.configured import connectors_in  # plugins may need packages that are not installed

    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read: {error}", hint="give the path of a TOML file") from error
    except tomllib.TOMLDecodeError as error:
        raise CommandError(f"{path} is not valid TOML: {error}") from error
    _act_as_script(path.resolve().parent, path.resolve())
    try:
        own, connectors = connectors_in(table)
        app = App(str(own.pop("application.id", path.stem)), config={**own, **(config or {})})
        for connector in connectors:
            app.add_connector(connector)
    except ConfigError as error:
        raise CommandError(f"{path}: {error.message}", hint=error.hint) from error
    return app


@contextlib.contextmanager
def user_lines() -> Iterator[None]:
    """Prefixes topology errors with the line of user code."""
    try:
        yield
    except TopologyError as error:
        raise CommandError(f"{error.at}: {error.message}", hint=error.hint) from error


def _split(target: str) -> tuple[str, str | None]:
    place, colon, name = target.rpartition(":")
    return (place, name) if colon else (target, None)


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise CommandError(f"there is no file {path}", hint="give the path of a Python file, or module:name")
    path = path.resolve()
    _act_as_script(path.parent, path)
    name = path.stem if path.stem not in sys.modules else f"{path.stem}_application"
    loader = _ScriptLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException as error:
        raise _failure(error, str(path), path.parent) from error
    return module


class _ScriptLoader(SourceFileLoader):
    """Compiles the file each time, as Python does with a script.

    Cached bytecode would be used for a file that was changed within a second and has the same size.
    """

    def get_code(self, fullname: str) -> CodeType:
        """Returns the compiled source."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _load_module(name: str) -> ModuleType:
    here = Path.cwd()
    _act_as_script(here, here / "application.py")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            hint = "give the path of a Python file, or a module that can be imported from here"
            raise CommandError(f"there is no module {name!r}", hint=hint) from error
        raise _failure(error, name, here) from error
    except BaseException as error:
        raise _failure(error, name, here) from error


def _act_as_script(directory: Path, script: Path) -> None:
    """Makes the process look as if it had been started with a script in a directory.

    Imports search the directory first, and functions of modules in it are pickled by value for Spark's workers, which
    cannot import these modules.
    """
    sys.path.insert(0, str(directory))
    sys.modules["__main__"].__file__ = str(script)


def _failure(error: BaseException, what: str, root: Path) -> BaseException:
    """Returns an error whose message describes the failure of user code and its line."""
    if isinstance(error, KeyboardInterrupt):
        return error
    hint = "MILLSTREAM_DEBUG=1 shows the whole traceback"
    if isinstance(error, TopologyError):
        return CommandError(f"{error.at}: {error.message}", hint=error.hint)
    if isinstance(error, SyntaxError) and error.filename is not None:
        return CommandError(f"{_short(error.filename)}:{error.lineno}: {type(error).__name__}: {error.msg}", hint=hint)
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename.startswith(str(root) + os.sep) and "site-packages" not in frame.filename
    ]
    at = f"{_short(frames[-1].filename)}:{frames[-1].lineno}" if frames else what
    if isinstance(error, SystemExit):
        return CommandError(f"{at}: the file exits the program", hint='put the exit below: if __name__ == "__main__":')
    text = f"{type(error).__name__}: {error.message}" if isinstance(error, MillstreamError) else error_text(error)
    return CommandError(f"{at}: {text}", hint=getattr(error, "hint", None) or hint)


def _short(filename: str) -> str:
    path, here = Path(filename), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else filename


def _find(module: ModuleType, name: str | None, target: str) -> App:
    apps = {key: value for key, value in vars(module).items() if isinstance(value, App)}
    place = getattr(module, "__file__", None) or target
    if name is None:
        if isinstance(getattr(module, "app", None), App) or (not apps and callable(getattr(module, "app", None))):
            name = "app"
        elif len({id(app) for app in apps.values()}) == 1:
            name = next(iter(apps))
        else:
            names = ", ".join(f"{target}:{key}" for key in apps)
            hint = f"name one: {names}" if apps else "create one with App(…), or name a function that returns one"
            how_many = "several applications" if apps else "no application"
            raise CommandError(f"there {'are' if apps else 'is'} {how_many} in {_short(place)}", hint=hint)
    if name not in vars(module):
        hint = suggestion(name, vars(module)) or (f"it has: {', '.join(apps)}" if apps else "")
        raise CommandError(f"there is no {name!r} in {_short(place)}", hint=hint or None)
    value = vars(module)[name]
    if not isinstance(value, App) and callable(value):
        try:
            value = value()
        except BaseException as error:
            raise _failure(error, target, Path(place).resolve().parent) from error
    if not isinstance(value, App):
        raise CommandError(f"{name!r} in {_short(place)} is not an application: it is of type {type(value).__name__}")
    return value
