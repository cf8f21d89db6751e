"""The program of an application: everything that its processes need to run it, packed once and sent to each."""

from __future__ import annotations

import hashlib
import io
import pickle
import threading
from dataclasses import dataclass, field
from typing import Any

from millstream.config import Config
from millstream.errors import MillstreamError, RunError
from millstream.log.opening import LogLocation
from millstream.plan.sources import ToTable
from millstream.runtime.program.modules import modules_beside_script, sources_installed
from millstream.runtime.queries import has_view
from millstream.runtime.user_code.user_output import Logging, logging_here
from millstream.schemas.registries import registry_of
from millstream.stages import Topology
from millstream.stages.placement import Placement, place
from millstream.stages.subtopology import changelog_topic
from millstream.state.spec import StoreSpec
from millstream.text.escaping import error_text


@dataclass(frozen=True)
class Program:
    """An application as it runs.

    Attributes:
        topology: Its topology.
        config: Its configuration.
        tasks: Number of tasks.
        counts: Number of partitions of each topic that it reads or writes.
        log: Location of its log.
        restores: Stores that are rebuilt before anything else, by changelog topic.
        cells: Cells of the operators of each task at a migration, for stores that are rebuilt.
        complete_changelogs: Stores whose changelogs contain all of their rows.
        logging: Configuration of the loggers of the driver.
        shuffle: The execution has a shuffle between the readers and the tasks.
    """

    topology: Topology
    config: Config
    tasks: int
    counts: dict[str, int]
    log: LogLocation
    restores: dict[str, str] = field(default_factory=dict)
    cells: dict[int, bytes] = field(default_factory=dict)
    complete_changelogs: frozenset[str] = frozenset()
    logging: dict[str, Logging] = field(default_factory=logging_here)
    shuffle: bool = True

    @property
    def placement(self) -> Placement:
        """The placement of its sub-topologies."""
        return place(self.topology, shuffle=self.shuffle)

    def changelog_of(self, spec: StoreSpec) -> str | None:
        """The changelog topic of a store, None if it has none. Workers have one for every store."""
        if not self.shuffle and spec.name not in {table.store.name for table in self.topology.global_tables}:
            return changelog_topic(self.topology.application_id, spec)
        if not (spec.named and spec.logged and self.config["store.changelogs"]) or spec.kind == "buffer":
            return None
        if any(table.reuse_source and table.store.name == spec.name for table in self.topology.plan.of_type(ToTable)):
            return None
        return changelog_topic(self.topology.application_id, spec)

    @property
    def logged(self) -> list[str]:
        """The stores that have a changelog."""
        return [spec.name for spec in self.topology.stores if self.changelog_of(spec) is not None]

    def has_view(self, spec: StoreSpec) -> bool:
        """Whether a store can be queried."""
        return has_view(spec, self.config)


_packing = threading.Lock()


def pack_program(program: Program) -> bytes:
    """Packs a program. The script is sent by value, the modules beside it as sources that are imported."""
    return pack(program)


def pack(thing: Any) -> bytes:
    """Packs an object for the processes that run an application.

    Raises:
        RunError: It cannot be pickled.
    """
    from millstream.runtime.program.pickling import Pickler, cloudpickle  # noqa: PLC0415  (only the driver packs programs)

    sources, by_value = modules_beside_script()
    buffer = io.BytesIO()
    pickle.dump(sources, buffer)
    with _packing:  # cloudpickle's registry is one for all threads
        by_others = cloudpickle.list_registry_pickle_by_value()
        registered = [module for module in by_value if module.__name__ not in by_others]
        for module in registered:
            cloudpickle.register_pickle_by_value(module)
        try:
            Pickler(buffer).dump(thing)
        except Exception as error:
            raise RunError(
                f"the application cannot be sent to the processes that run it: {error}",
                hint="a function refers to something that cannot be pickled (an open file, a connection, a lock): make "
                "it inside the function, or in the init of a processor",
            ) from error
        finally:
            for module in registered:
                cloudpickle.unregister_pickle_by_value(module)
    return buffer.getvalue()


_MOST = 8
_programs: dict[bytes, Program] = {}


def digest(data: bytes) -> bytes:
    """A short name for a packed program."""
    return hashlib.blake2b(data, digest_size=12).digest()


def unpack_program(data: bytes) -> Program:
    """Unpacks a program, once in each process.

    Raises:
        RunError: A module that it needs is missing or fails.
    """
    name = digest(data)
    program = _programs.get(name)
    if program is None:
        program = unpack(data)
        assert isinstance(program, Program)
        registry_of(program.topology.application_id, program.config, program.log.directory)
        while len(_programs) >= _MOST:
            del _programs[next(iter(_programs))]
        _programs[name] = program
    return program


def unpack(data: bytes) -> Any:
    """Unpacks the form of `pack`.

    Raises:
        RunError: A module that it needs is missing or fails.
    """
    from millstream.runtime.program.pickling import build_models  # noqa: PLC0415  (PySpark takes long to import)

    stream = io.BytesIO(data)
    try:
        # It came from the driver, through Spark's own channel, as Spark's own functions do.
        with sources_installed(pickle.load(stream)):  # noqa: S301
            thing = pickle.load(stream)  # noqa: S301
            build_models()
        return thing
    except MillstreamError:
        raise
    except ImportError as error:
        raise RunError(
            f"a module that the application needs cannot be imported where it runs: {error}",
            hint="install it on every machine of the cluster, or put it beside the script: it is then sent along",
        ) from error
    except (Exception, SystemExit) as error:  # a module may read the arguments of the command line, which are others
        raise RunError(
            f"the application cannot be unpacked where it runs: {error_text(error)}",
            hint="a module that it needs is another version there, or fails when it is imported: install the same "
            "one on every machine of the cluster",
        ) from error
