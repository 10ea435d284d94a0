"""The table of implementations, one for each operator, and what happened to them.

Operators whose entry is in `ACTIVE` go through it with every call; all others go to this library's kernel directly,
which costs one look into an empty dict.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from ms_ascend_ops import registry
from ms_ascend_ops.dispatch.breaker import Breaker
from ms_ascend_ops.dispatch.implementations import DEVICES, Implementation, built_in
from ms_ascend_ops.dispatch.policies import Fixed, Policy
from ms_ascend_ops.routing import ROUTERS, Makers, Routed

__all__ = [
    "ACTIVE",
    "LISTENERS",
    "Choice",
    "Guard",
    "Listener",
    "Status",
    "Table",
    "choices",
    "implementations",
    "listen",
    "register",
    "reset",
    "status",
    "table_of",
    "unlisten",
    "unregister",
    "use",
    "used",
    "versions_of",
]

_log = logging.getLogger("ms_ascend_ops.dispatch")
_lock = threading.RLock()


@dataclass(frozen=True)
class Guard:
    """Looks at the results of an operator, and takes out an implementation whose results are wrong.

    With every call it looks for NaN and Inf; where there are some, the reference calculates the same: those that it
    does not have are wrong. The first calls of each shape bucket, and then a share of them, are compared with the
    reference in all values, by the mixed tolerance of acceptance.py. Results of operators that write their inputs are
    not looked at.

    Args:
        reference: its version; default: the composition of stock operators, or else the next in order.
        finite: whether NaN and Inf are looked for in every call.
        first: how many calls of each shape bucket are compared.
        share: of later calls.
    """

    reference: str = ""
    finite: bool = True
    first: int = 1
    share: float = 1 / 256

    def __post_init__(self) -> None:
        if self.first < 0 or not 0 <= self.share <= 1:
            raise ValueError(f"Guard: first must be 0 or more, share 0 to 1, got {self.first} and {self.share}")


class Listener(Protocol):
    """Is told of calls that go through the table.

    every: of all calls of all operators by Python. Without it: of operators with a policy, and not of calls of a kernel
    that nothing else has to look at.
    """

    every: bool

    def called(self, operator: str, version: str, bucket: str, seconds: float, nbytes: int, counted: bool) -> None:
        """A call was answered; `counted`: by a kernel of a library that counts its launches."""

    def failed(self, operator: str, version: str, kind: str) -> None:
        """An implementation was taken out: "error", "load", "non-finite" or "wrong result"."""

    def fell_back(self, operator: str, version: str, to: str) -> None:
        """A call was answered by `to` in place of `version`."""


LISTENERS: list[Listener] = []


@dataclass(frozen=True)
class Choice:
    """Says what was put into a graph, and why.

    Args:
        operator: its name.
        version: the implementation that a graph got.
        reason: why that one.
        form: shapes and dtypes of the place.
    """

    operator: str
    version: str
    reason: str
    form: str

    def __str__(self) -> str:
        return f"{self.operator} {self.form}: {self.version} ({self.reason})"


@dataclass(frozen=True)
class Status:
    """Describe one implementation of one operator as it is now.

    Args:
        operator: its name.
        version: the name of the implementation.
        what: where it comes from.
        policy: who decides for the operator.
        state: of its circuit breaker.
        failures: how many there were, by kind.
        fallbacks: calls that another implementation answered.
        reason: that of the last failure.
    """

    operator: str
    version: str
    what: str
    policy: str
    state: str
    failures: dict[str, int]
    fallbacks: int
    reason: str


@dataclass
class Table:
    """The implementations of one operator, best first, and who answers."""

    operator: str
    implementations: list[Implementation]
    policy: Policy = field(default_factory=Fixed)
    guard: Guard | None = None
    pause: float = 30.0
    breakers: dict[str, Breaker] = field(default_factory=dict)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)  # by version and kind
    fallbacks: Counter[tuple[str, str]] = field(default_factory=Counter)  # from, to
    generation: int = 0  # changes with all that routes remember
    used: bool = False  # a policy was chosen

    def __post_init__(self) -> None:
        for one in self.implementations:
            self.breakers[one.version] = Breaker(self.pause)

    @property
    def versions(self) -> list[str]:
        return [one.version for one in self.implementations]

    def get(self, version: str) -> Implementation:
        """One of them.

        Raises:
            ValueError: there is none of this name.
        """
        for one in self.implementations:
            if one.version == version:
                return one
        raise ValueError(
            f"{self.operator}: there is no implementation {version!r}; there are {', '.join(self.versions)}"
        )

    def route(
        self, make: Makers, check: Callable[..., None], device: str, attributes: dict[str, Any], first: str
    ) -> Routed:
        """Return what answers calls with these attributes; see `routing.Router`."""
        from ms_ascend_ops.dispatch.route import Route  # noqa: PLC0415 - imports MindSpore, which a table needs not

        return Route(self, make, check, device, attributes, first)

    def changed(self) -> None:
        """Routes look again."""
        self.generation += 1

    def take_out(self, version: str, kind: str, why: str, forever: bool = False) -> None:
        """Open the breaker of an implementation; counted, and logged when it was in use."""
        with _lock:
            self.failures[version, kind] += 1
            first = self.breakers[version].fail(f"{kind}: {why}", forever)
            self.changed()
        level = logging.WARNING if first else logging.DEBUG
        until = "until reset" if forever else f"for {self.breakers[version].pause:g} s"
        _log.log(level, "%s: %s is taken out %s (%s: %s)", self.operator, version, until, kind, why)
        for listener in LISTENERS:
            listener.failed(self.operator, version, kind)

    def came_back(self, version: str) -> None:
        """A half-open one answered a call."""
        if self.breakers[version].succeed():
            _log.warning("%s: %s is back", self.operator, version)
            self.changed()

    def fell_back(self, version: str, to: str) -> None:
        """Count a call that `to` answered in place of `version`, and say so the first time."""
        with _lock:
            self.fallbacks[version, to] += 1
            first = self.fallbacks[version, to] == 1
        if first:
            _log.warning("%s: %s answers in place of %s", self.operator, to, version)
        for listener in LISTENERS:
            listener.fell_back(self.operator, version, to)


_tables: dict[str, Table] = {}
ACTIVE = cast("dict[str, Table]", ROUTERS)  # custom.py looks there with every call
_choices: list[Choice] = []
_MOST_CHOICES = 10000


def table_of(operator: str) -> Table:
    """The table of an operator.

    Raises:
        ValueError: there is no such operator.
    """
    with _lock:
        if operator not in _tables:
            _tables[operator] = Table(operator, list(built_in(registry.op_spec(operator).name)))
        return _tables[operator]


def register(
    operator: str,
    version: str,
    *,
    function: Any = None,
    library: str | Path | None = None,
    devices: tuple[str, ...] = DEVICES,
    dtypes: tuple[str, ...] = (),
    sizes: dict[str, tuple[int, int | None]] | None = None,
    when: dict[str, Any] | None = None,
) -> Implementation:
    """Add an implementation of an operator, behind those that it has. A policy says who answers.

    Args:
        operator: name such as "rms_norm".
        version: a name for it.
        function: takes the inputs, then the attributes, in the order of the definition; returns all outputs. Graphs
            compile it; its gradient is MindSpore's.
        library: a `libms_ascend_ops.so` that was built from another state of the kernels; of a CPU. Its own gradient
            kernel is taken along. It is loaded in a process of its own first.
        devices: "CPU", "Ascend".
        dtypes: those of the first input that it takes; none: all of the operator.
        sizes: the range of a dim or of the number of elements, by `x[-1]` or `x.size`: {"x[-1]": (1, 4096)}.
        when: values that attributes must have.

    Raises:
        ValueError: there is no such operator, it has such a version, or an argument is wrong.
    """
    table = table_of(operator)
    if library is not None:
        devices = tuple(device for device in devices if device == "CPU")
    one = Implementation(
        operator,
        version,
        function,
        None if library is None else Path(library).resolve(),
        tuple(devices),
        tuple(dtypes),
        dict(sizes or {}),
        dict(when or {}),
    )
    if version in table.versions:
        raise ValueError(f"register: {operator} has an implementation {version!r} already")
    one.check()
    with _lock:
        table.implementations.append(one)
        table.breakers[version] = Breaker(table.pause)
        table.changed()
    return one


def unregister(operator: str, version: str) -> None:
    """Take back what `register` added.

    Args:
        operator: its name.
        version: the name that `register` was given.

    Raises:
        ValueError: there is no such implementation, or it is one that the operator has from the start.
    """
    table = table_of(operator)
    one = table.get(version)
    if one in built_in(operator):
        raise ValueError(f"unregister: {operator} has {version!r} from the start")
    with _lock:
        table.implementations.remove(one)
        del table.breakers[version]
        table.changed()


def implementations(operator: str) -> list[Implementation]:
    """List the implementations of an operator, best first.

    Args:
        operator: its name.
    """
    return list(table_of(operator).implementations)


def use(policy: Policy, *operators: str, guard: Guard | None = None, pause: float = 30.0) -> None:
    """Choose who answers the calls of operators from now on. Graphs that are compiled already stay as they are.

    From then on an implementation that fails is taken out, and the next one answers.

    Args:
        policy: `Fixed`, `Fastest` or `AB`; an `AB` is for one operator.
        operators: names; none: all.
        guard: looks at results.
        pause: seconds for which one that failed is out.

    Raises:
        ValueError: there is no such operator, or it has no such implementation.
    """
    tables = [table_of(operator) for operator in operators or registry.names()]
    for table in tables:
        policy.check(table.operator, table.versions)
        if guard is not None and guard.reference:
            table.get(guard.reference)
    with _lock:
        for table in tables:
            table.policy, table.guard, table.pause, table.used = policy, guard, pause, True
            table.breakers = {version: Breaker(pause) for version in table.versions}
            table.changed()
            ACTIVE[table.operator] = table


def reset(*operators: str) -> None:
    """Go back to this library's kernels, without fallback. What was registered stays.

    Args:
        operators: their names; none: all.
    """
    with _lock:
        for operator in operators or tuple(_tables):
            table = table_of(operator)
            table.policy, table.guard, table.used = Fixed(), None, False
            table.breakers = {version: Breaker(table.pause) for version in table.versions}
            table.failures.clear()
            table.fallbacks.clear()
            table.changed()
            if not _all_are_heard():
                ACTIVE.pop(operator, None)
        if not operators:
            _choices.clear()


def listen(listener: Listener) -> None:
    """Tell this one of calls from now on."""
    with _lock:
        LISTENERS.append(listener)
        if listener.every:
            ACTIVE.update((operator, table_of(operator)) for operator in registry.names())
        for table in ACTIVE.values():
            table.changed()


def unlisten(listener: Listener) -> None:
    """Tell it no more."""
    with _lock:
        LISTENERS.remove(listener)
        for table in list(ACTIVE.values()):
            table.changed()
            if not table.used and not _all_are_heard():
                del ACTIVE[table.operator]


def _all_are_heard() -> bool:
    return any(listener.every for listener in LISTENERS)


def used() -> list[str]:
    """The operators that have a policy."""
    return [operator for operator, table in list(_tables.items()) if table.used]


def versions_of(library: Path) -> dict[str, str]:
    """Return, by operator, the version as which a library is registered."""
    return {
        operator: one.version
        for operator, table in list(_tables.items())
        for one in list(table.implementations)
        if one.library == library
    }


def chosen_for_graph(choice: Choice) -> None:
    """Keep for the report what was put into a graph."""
    if choice not in _choices[-1:] and len(_choices) < _MOST_CHOICES:
        _choices.append(choice)
    _log.info("graph: %s", choice)


def choices() -> list[Choice]:
    """Return what graphs got that were compiled or exported since the last `reset()`, of operators with a policy."""
    return list(_choices)


def status(*operators: str) -> list[Status]:
    """Describe the implementations of operators.

    Args:
        operators: their names; none: all that have a policy or something registered.
    """
    return list(_status(operators or tuple(sorted(_tables))))


def _status(operators: tuple[str, ...]) -> Iterator[Status]:
    for operator in operators:
        table = table_of(operator)
        for one in table.implementations:
            breaker = table.breakers[one.version]
            kinds = {kind: count for (version, kind), count in table.failures.items() if version == one.version}
            away = sum(count for (version, _), count in table.fallbacks.items() if version == one.version)
            policy = table.policy.describe() if table.used else "kernel, without fallback"
            yield Status(operator, one.version, one.what, policy, breaker.state, kinds, away, breaker.reason)
