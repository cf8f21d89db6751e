"""The configuration of an application."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from millstream.config.keys import KEYS, PREFIXES
from millstream.config.secrets import protected
from millstream.errors import ConfigError, suggestion

_PASSED_ON = tuple(PREFIXES)
_SPECULATION = "spark.speculation"


def refuse_speculation(settings: Mapping[str, Any], whose: str) -> None:
    """Refuses speculative execution, in which Spark starts a second attempt of a task while the first one runs.

    Raises:
        ConfigError: It is enabled.
    """
    if str(settings.get(_SPECULATION, "")).strip().lower() == "true":
        raise ConfigError(
            f"{whose} enables {_SPECULATION}, which runs two attempts of a task at once: both would write the state of "
            "the task",
            hint=f"set {_SPECULATION} to false, its default, in the configuration of Spark",
        )


class Config(Mapping[str, Any]):
    """The configuration of an application: every key has a value.

    Keys are Kafka's; their spelling in snake case is accepted, too. An unknown key is an error.

    >>> Config({"topology.optimization": "all"})["topology.optimization"]
    ('reuse.ktable.source.topics', 'merge.repartition.topics', 'single.store.self.join')
    >>> Config({"topology.optimisation": "all"})
    Traceback (most recent call last):
    millstream.errors.ConfigError: unknown configuration key 'topology.optimisation'
      hint: did you mean 'topology.optimization'?
    """

    _values: dict[str, Any]
    _explicit: set[str]

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        if isinstance(settings, Config):
            self._values, self._explicit = dict(settings._values), set(settings._explicit)
            return
        self._values = {name: key.check(name, key.default) for name, key in KEYS.items()}
        self._explicit = set()
        for name, value in (settings or {}).items():
            dotted = name if not isinstance(name, str) or name in KEYS else name.replace("_", ".")
            if not isinstance(dotted, str):
                raise ConfigError(f"unknown configuration key {name!r}: keys are text")
            if dotted.startswith(_PASSED_ON):
                passed = name if name.startswith(_PASSED_ON) else dotted
                self._values[passed] = value if passed.startswith("spark.") else protected(passed, value)
                self._explicit.add(passed)
                continue
            if dotted not in KEYS:
                hint = suggestion(dotted, KEYS) or f"the keys are: {', '.join(KEYS)}"
                raise ConfigError(f"unknown configuration key {name!r}", hint=hint)
            self._values[dotted] = KEYS[dotted].check(dotted, protected(dotted, value))
            self._explicit.add(dotted)
        refuse_speculation(self._values, "the configuration")

    @property
    def explicit(self) -> dict[str, Any]:
        """The values that were set, without the defaults."""
        return {key: self._values[key] for key in sorted(self._explicit)}

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)
