"""One operator with one set of attributes on one device: asks the policy who answers, watches, and falls back."""

from __future__ import annotations

import logging
import random
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import lru_cache
from statistics import median
from typing import Any

import numpy as np

from ms_ascend_ops import registry
from ms_ascend_ops.dispatch.comparison import Difference, difference_of, flat, is_finite, values_of
from ms_ascend_ops.dispatch.implementations import Form, Implementation
from ms_ascend_ops.dispatch.policies import Fixed
from ms_ascend_ops.dispatch.table import LISTENERS, Choice, Table, chosen_for_graph
from ms_ascend_ops.mindspore_versions import traced as is_traced
from ms_ascend_ops.mindspore_versions import wait
from ms_ascend_ops.routing import Makers

__all__ = ["Route"]

_log = logging.getLogger("ms_ascend_ops.dispatch")
_MOST_FORMS = 4096
_LEAST_RUNS, _MOST_RUNS = 5, 200


class _NotUsable(Exception):  # noqa: N818 - goes no further than the route
    """An implementation did not answer a call."""

    def __init__(self, error: Exception):
        super().__init__(str(error))
        self.error = error


class Route:
    """Takes the inputs of the operator, all of them, and returns its outputs.

    Args:
        table: that of the operator.
        make: what makes functions of the inputs.
        check: raises for inputs that the operator does not take.
        device: the device target.
        attributes: all of them, by name.
        first: the version that comes first where the policy names none; empty: the first of the table.
    """

    def __init__(
        self,
        table: Table,
        make: Makers,
        check: Callable[..., None],
        device: str,
        attributes: dict[str, Any],
        first: str = "",
    ):
        self._first = first
        self.operator = table.operator
        self._table = table
        self._make = make
        self._check = check
        self._device = device
        self._attributes = attributes
        self._functions: dict[Implementation, Callable[..., Any]] = {}
        self._generation = -1
        self._direct: Callable[..., Any] | None = None
        self._compared: dict[str, int] = defaultdict(int)
        self._random = random.Random(0)
        self._writes = bool(registry.signature(self.operator).writes)
        self._forms: dict[tuple[Any, ...], Form] = {}
        self._orders: dict[Form, tuple[str, ...]] = {}  # that a policy came to, until something changes
        self._cached_able = lru_cache(maxsize=_MOST_FORMS)(self._able)

    def __call__(self, *tensors: Any) -> Any:
        if self._generation != self._table.generation:
            self._look_again()
        direct = self._direct
        if direct is None:
            return self._call(tensors)
        try:
            return direct(*tensors)
        except Exception as error:
            return self._after(error, tensors)

    def in_graph(self, shapes: Sequence[tuple[int, ...] | None], dtypes: Sequence[str | None]) -> Callable[..., Any]:
        """The function that a graph gets; said in the report."""
        form = Form(tuple(shapes), tuple(dtypes))
        order, why = self._table.policy.order_in_graph(self, form)
        errors: list[tuple[str, Exception]] = []
        for one in self._in_order(order, form):
            if not self._table.breakers[one.version].closed:
                continue
            try:
                function = self._loaded(one)
            except Exception as error:
                self._table.take_out(one.version, "load", _text(error))
                errors.append((one.version, error))
                continue
            reason = why if one.version in order[:1] or not order else f"{why}; {order[0]} cannot answer"
            if not order and errors:
                reason = f"{why}; {errors[0][0]} does not load"
            chosen_for_graph(Choice(self.operator, one.version, reason, str(form)))
            return function
        raise self._nothing_left(errors)

    def key(self, form: Form) -> str:
        """The name of a call's kind in the cache of what was measured."""
        attributes = ",".join(f"{name}={value}" for name, value in sorted(self._attributes.items()))
        return f"{self.operator}({attributes}) {self._device} {form.bucket}"

    def take_out(self, version: str, kind: str, why: str, forever: bool = False) -> None:
        """See Table.take_out."""
        self._table.take_out(version, kind, why, forever)

    def decided(self) -> None:
        """The policy came to a decision."""
        self._table.changed()

    def measure(self, form: Form, tensors: tuple[Any, ...], budget: float) -> dict[str, float]:
        """Medians in microseconds by identity, of all that can answer; infinite where one fails or is wrong."""
        runs: dict[str, list[float]] = {}
        found: list[tuple[Implementation, Callable[..., Any]]] = []
        golden: Any = None
        failed: dict[str, float] = {}
        for one in self._in_order((), form):
            try:
                function = self._loaded(one)
                results = _waited(function(*_own(tensors, self._writes)))
                self._warm_up(function, tensors, budget)
            except Exception as error:
                self._blame(error, tensors, one)
                failed[one.identity] = float("inf")
                continue
            if golden is None:
                golden = results
            elif not self._writes and (reasons := difference_of(results, golden).reasons):
                self._table.take_out(one.version, "wrong result", "; ".join(reasons), forever=True)
                failed[one.identity] = float("inf")
                continue
            found.append((one, function))
            runs[one.identity] = []
        end = time.perf_counter() + budget * len(found)
        for number in range(_MOST_RUNS):  # in turn: a machine that others use is slow for all of them
            if number >= _LEAST_RUNS and time.perf_counter() > end:
                break
            for one, function in found:
                mine = _own(tensors, self._writes)
                start = time.perf_counter()
                _waited(function(*mine))
                runs[one.identity].append(time.perf_counter() - start)
        return {name: 1e6 * median(times) for name, times in runs.items()} | failed

    def difference(self, tensors: tuple[Any, ...], results: Any, version: str) -> Difference | None:
        """Compare results with another implementation's; None where that cannot answer, or inputs are written."""
        if self._writes or not self._table.breakers[version].closed:
            return None
        one = self._table.get(version)
        try:
            return difference_of(results, self._loaded(one)(*tensors))
        except Exception as error:
            self._blame(error, tensors, one)
            return None

    # A call by Python.

    def _look_again(self) -> None:
        """Tell whether one implementation answers all calls, with nobody looking on: the fast path."""
        table = self._table
        self._generation, self._direct = table.generation, None
        for one in set(self._functions) - set(table.implementations):
            del self._functions[one]
        self._orders.clear()
        self._cached_able.cache_clear()
        if not isinstance(table.policy, Fixed) or table.guard is not None:
            return
        first = table.get(self._wanted())
        if any(listener.every or not self._counts(first) for listener in LISTENERS):
            return
        if first.has_limits or not self._fits(first) or not table.breakers[first.version].closed:
            return
        try:
            function = self._loaded(first)
        except Exception as error:
            table.take_out(first.version, "load", _text(error))
            self._generation = table.generation
            return
        self._direct = function if getattr(function, "checks", False) else self._checked(function)

    def _checked(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*tensors: Any) -> Any:
            self._check(*tensors)
            return function(*tensors)

        return call

    def _wanted(self) -> str:
        """The one that a policy without measurements names first."""
        policy = self._table.policy
        named = policy.versions if isinstance(policy, Fixed) else ()
        if named or not self._first:
            return named[0] if named else self._table.versions[0]
        return self._first

    def _after(self, error: Exception, tensors: tuple[Any, ...]) -> Any:
        """The fast path raised: says whose fault it is."""
        first = self._wanted()
        self._blame(error, tensors, self._table.get(first))
        return self._call(tensors, [(first, error)])

    def _call(self, tensors: tuple[Any, ...], errors: list[tuple[str, Exception]] | None = None) -> Any:
        errors = errors or []
        if not errors:
            self._check(*tensors)
        table, form = self._table, self._form(tensors)
        traced = is_traced()
        wanted = errors[0][0] if errors else ""
        for one in self._in_order(self._order(form, tensors, traced), form):
            wanted = wanted or one.version
            breaker = table.breakers[one.version]
            if any(version == one.version for version, _ in errors) or not breaker.allows():
                continue
            was_closed = breaker.closed
            try:
                results = self._try(one, form, tensors, traced)
            except _NotUsable as reason:
                errors.append((one.version, reason.error))
                continue
            if not was_closed:
                table.came_back(one.version)
            if one.version != wanted:
                table.fell_back(wanted, one.version)
            return results
        raise self._nothing_left(errors)

    def _order(self, form: Form, tensors: tuple[Any, ...], traced: bool) -> tuple[str, ...]:
        policy = self._table.policy
        if traced:
            return policy.order_in_graph(self, form)[0]
        if form in self._orders:
            return self._orders[form]
        order = policy.order(self, form, tensors)
        if policy.is_stable and self._generation == self._table.generation:
            self._orders[form] = order
        return order

    def _try(self, one: Implementation, form: Form, tensors: tuple[Any, ...], traced: bool) -> Any:
        """The results of one implementation; raises _NotUsable, after it was taken out."""
        table = self._table
        exact = table.policy.timed and not traced  # with what runs behind the call
        try:
            function = self._loaded(one)
        except Exception as error:
            table.take_out(one.version, "load", _text(error))
            raise _NotUsable(error) from error
        try:
            if exact:
                wait()
            start = time.perf_counter()
            results = function(*tensors)
            if exact:
                _waited(results)
            seconds = time.perf_counter() - start
            wrong = "" if table.guard is None or traced else self._wrong(one, form, tensors, results)
        except Exception as error:
            self._blame(error, tensors, one)
            raise _NotUsable(error) from error
        if wrong:
            raise _NotUsable(RuntimeError(wrong))
        if LISTENERS and not traced:
            counted, nbytes = self._counts(one), _bytes(tensors, results)
            for listener in LISTENERS:
                listener.called(self.operator, one.version, form.bucket, seconds, nbytes, counted)
        if exact and (wrong := table.policy.took(self, form, one.version, seconds, tensors, results)):
            raise _NotUsable(RuntimeError(wrong))
        return results

    def _wrong(self, one: Implementation, form: Form, tensors: tuple[Any, ...], results: Any) -> str:
        """Return what the guard says of results; empty: nothing."""
        guard = self._table.guard
        assert guard is not None
        reference = self._reference(one, form)
        if reference is None or self._writes:
            return ""
        self._compared[form.bucket] += 1
        due = self._compared[form.bucket] <= guard.first or self._random.random() < guard.share
        suspect = guard.finite and not all(is_finite(result) for result in flat(results))
        if not due and not suspect:
            return ""
        golden = self._loaded(reference)(*tensors)
        if suspect and any(
            np.any(~np.isfinite(mine) & np.isfinite(theirs))
            for mine, theirs in zip(map(values_of, flat(results)), map(values_of, flat(golden)), strict=True)
        ):
            why = f"NaN or Inf where {reference.version} has none"
            self._table.take_out(one.version, "non-finite", why)
            return why
        if due and (reasons := difference_of(results, golden).reasons):
            why = f"beside {reference.version}: {'; '.join(reasons)}"
            self._table.take_out(one.version, "wrong result", why)
            return why
        return ""

    def _reference(self, one: Implementation, form: Form) -> Implementation | None:
        guard = self._table.guard
        assert guard is not None
        others = [other for other in self._in_order((), form) if other is not one]
        named = [other for other in others if other.version == (guard.reference or "composition")]
        if guard.reference:
            return named[0] if named else None
        return next(iter(named + others), None)

    def _blame(self, error: Exception, tensors: tuple[Any, ...], one: Implementation) -> None:
        """Take out the implementation that raised, unless the inputs are what is wrong: raises then."""
        if isinstance(error, (TypeError, ValueError)):
            self._check(*tensors)
        self._table.take_out(one.version, "error", _text(error))

    def _nothing_left(self, errors: list[tuple[str, Exception]]) -> Exception:
        said = "; ".join(f"{version}: {_text(error)}" for version, error in errors)
        out = "; ".join(
            f"{version} is out ({breaker.reason})"
            for version, breaker in self._table.breakers.items()
            if breaker.state == "open" and version not in [name for name, _ in errors]
        )
        texts = "; ".join(filter(None, (said, out))) or "none is for such a call"
        error = RuntimeError(f"{self.operator}: no implementation can answer: {texts}")
        error.__cause__ = errors[0][1] if errors else None
        return error

    # Who can answer.

    def _in_order(self, order: tuple[str, ...], form: Form) -> list[Implementation]:
        able = self.able(form)
        wanted = (*order, self._first)
        named = [one for version in dict.fromkeys(wanted) for one in able if one.version == version]
        return named + [one for one in able if one not in named]

    def able(self, form: Form) -> tuple[Implementation, ...]:
        """See CallSite.able."""
        return self._cached_able(form)

    def _able(self, form: Form) -> tuple[Implementation, ...]:
        """Return those that are for this device, these attributes and such a call."""
        return tuple(one for one in self._table.implementations if self._fits(one) and not one.why_not(form))

    def _fits(self, one: Implementation) -> bool:
        return self._device in one.devices and all(self._attributes[k] == v for k, v in one.when.items())

    def _counts(self, one: Implementation) -> bool:
        """Tell whether a library counts its launches, if told to."""
        return one.is_kernel and self._device == "CPU"

    def _loaded(self, one: Implementation) -> Callable[..., Any]:
        function = self._functions.get(one)
        if function is None:
            function = self._functions[one] = self._made(one)
        return function

    def _made(self, one: Implementation) -> Callable[..., Any]:
        if one.library is not None:
            return self._make.kernel(one.library)
        if one.function is not None:
            return self._make.applied(one.function)
        return self._make.cann() if one.version == "cann" else self._make.kernel(None)

    def _form(self, tensors: tuple[Any, ...]) -> Form:
        key = tuple(None if tensor is None else (tensor.shape, tensor.dtype) for tensor in tensors)
        form = self._forms.get(key)
        if form is None:
            if len(self._forms) >= _MOST_FORMS:
                self._forms.clear()
            shapes = tuple(None if one is None else tuple(one[0]) for one in key)
            dtypes = tuple(None if one is None else str(one[1]).lower() for one in key)
            form = self._forms[key] = Form(shapes, dtypes)
        return form

    def _warm_up(self, function: Callable[..., Any], tensors: tuple[Any, ...], budget: float) -> None:
        """Run as long as a measurement, so that what is compiled during one is compiled by then."""
        end = time.perf_counter() + budget
        for number in range(_MOST_RUNS):
            if number >= 2 and time.perf_counter() > end:
                return
            _waited(function(*_own(tensors, self._writes)))

    def __deepcopy__(self, memo: dict[int, Any]) -> Route:
        return self


def _waited(results: Any) -> Any:
    """Until they are there: MindSpore's operators run behind the call."""
    wait()
    return results


def _own(tensors: tuple[Any, ...], written: bool) -> tuple[Any, ...]:
    return tuple(tensor.copy() if tensor is not None else None for tensor in tensors) if written else tensors


def _bytes(tensors: tuple[Any, ...], results: Any) -> int:
    given = sum(tensor.nbytes for tensor in tensors if tensor is not None)
    return int(given + sum(result.nbytes for result in flat(results)))


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:300]
