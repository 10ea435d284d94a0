"""Loads, unloads and chooses the models of a server. Knows nothing of HTTP and gRPC."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ms_ascend_ops import monitoring
from ms_ascend_ops.serving.batching import BatchQueue, Job
from ms_ascend_ops.serving.errors import BadRequest, Deadline, NotFound, ServingError, Unavailable
from ms_ascend_ops.serving.language import Generation, LanguageWorker, open_model
from ms_ascend_ops.serving.metrics import Metrics, ModelMetrics
from ms_ascend_ops.serving.reader import Reader
from ms_ascend_ops.serving.repository import Repository, Source, checked_name, source_in
from ms_ascend_ops.serving.settings import ModelOptions, Settings, read_options
from ms_ascend_ops.serving.tensors import TensorSpec, Values
from ms_ascend_ops.suggestions import suggestion

if TYPE_CHECKING:
    from ms_ascend_ops.llm.model import LanguageModel
    from ms_ascend_ops.llm.scheduler import Request
    from ms_ascend_ops.serving.graphs import GraphNetwork

__all__ = ["Service", "Version"]

_log = logging.getLogger(__name__)


class Version:
    """Holds a version of a model that is loaded."""

    def __init__(self, name: str, number: int, source: Source, options: ModelOptions, metrics: ModelMetrics):
        self.name = name
        self.number = number
        self.source = source
        self.options = options
        self.metrics = metrics
        self.loaded_at = int(time.time())
        self.compiling = asyncio.Semaphore(2)  # of grammars, at once
        self._users = 0
        self._retired = False
        label = f"{name}:{number}"
        self._worker: BatchQueue | LanguageWorker
        if source.kind == "graph":
            self._worker = BatchQueue(
                label, lambda: _open_graph(source.path, options), metrics, options.queue, options.max_batch_size,
                options.batch_delay_ms / 1000,
            )  # fmt: skip
        else:
            self._worker = LanguageWorker(
                label, lambda: open_model(source.path, options), metrics, options.batch, options.queue
            )

    async def ready(self) -> None:
        """Wait until it is loaded.

        Raises:
            BadRequest: it cannot be.
        """
        try:
            self._model: Any = await asyncio.shield(asyncio.wrap_future(self._worker.loaded))
        except asyncio.CancelledError:
            raise
        except Exception as error:
            # What is wrong with a file says its message; where else, the place in the program.
            unknown = not isinstance(error, ValueError)
            _log.error("version %d of %s cannot be loaded: %s", self.number, self.name, error, exc_info=unknown)
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            for path in {self.source.path, self.source.path.resolve()}:  # with blanks in them, perhaps
                reason = reason.replace(f"{path.parent}/", "")
            raise BadRequest(f"version {self.number} of {self.name} cannot be loaded: {reason}") from error

    @property
    def is_language_model(self) -> bool:
        """Tell whether it continues texts."""
        return self.source.kind == "language"

    @property
    def language_model(self) -> LanguageModel:
        """Return the language model that it is."""
        model: LanguageModel = self._model
        return model

    @property
    def platform(self) -> str:
        """Return it as the metadata say."""
        return "ms_ascend_ops_llm" if self.is_language_model else "mindspore_mindir"

    @property
    def inputs(self) -> Sequence[TensorSpec]:
        """Return those of the network; a language model has none."""
        return () if self.is_language_model else self._network.inputs

    @property
    def outputs(self) -> Sequence[TensorSpec]:
        """Return those of the network; a language model has none."""
        return () if self.is_language_model else self._network.outputs

    @property
    def _network(self) -> GraphNetwork:
        network: GraphNetwork = self._model
        return network

    async def infer(self, given: Mapping[str, Values], timeout_s: float | None = None) -> list[Values]:
        """Return the outputs of the network. When this is cancelled, the request leaves the queue.

        Raises:
            BadRequest: inputs are missing, or do not fit.
            Busy: the queue is full.
            Deadline: it took longer than `timeout_s`, or than the options of the model allow.
        """
        if not isinstance(self._worker, BatchQueue):
            raise BadRequest(f"{self.name} is a language model: ask /v1/completions or /v1/chat/completions")
        names = [spec.name for spec in self.inputs]
        if unknown := [name for name in given if name not in names]:
            raise BadRequest(f"{self.name} has no input {unknown[0]!r}; it has {', '.join(names)}")
        if missing := [name for name in names if name not in given]:
            raise BadRequest(f"the input {missing[0]} is missing; {self.name} has {', '.join(names)}")
        inputs = [given[name] for name in names]
        self._network.check(inputs)
        most = self.options.timeout_s
        of_client = timeout_s is not None and timeout_s < most
        seconds = timeout_s if timeout_s is not None and of_client else most
        job = Job(inputs, time.monotonic() + seconds if of_client else None)
        future = self._worker.submit(job)
        self.metrics.requested()
        start, kind = time.monotonic(), "fail"
        try:
            outputs = await asyncio.wait_for(asyncio.wrap_future(future), seconds)
            kind = "success"
            return outputs
        except asyncio.TimeoutError as error:
            raise Deadline(f"there was no answer within {seconds:g} s", of_client) from error
        finally:
            self.metrics.statistics.add(kind, time.monotonic() - start)

    def generate(self, requests: Sequence[Request]) -> list[Generation]:
        """Have a language model work on requests.

        Raises:
            Busy: too many wait.
        """
        if not isinstance(self._worker, LanguageWorker):
            raise BadRequest(f"{self.name} is no language model: ask /v2/models/{self.name}/infer")
        generations = self._worker.submit(requests)
        self.metrics.requested()
        return generations

    @contextmanager
    def used(self) -> Iterator[None]:
        """Hold a version during a request: one that is unloaded goes when nobody uses it any more."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            self._close_if_unused()

    def retire(self) -> None:
        """Go, as soon as what was begun is done."""
        self._retired = True
        self._close_if_unused()

    def _close_if_unused(self) -> None:
        if self._retired and self._users == 0:
            self._worker.close()

    async def closed(self) -> None:
        """Wait for the end of its thread."""
        await asyncio.shield(asyncio.wrap_future(self._worker.ended))


@dataclass
class _Model:
    name: str
    versions: dict[int, Version] = field(default_factory=dict)
    # Smooth weighted round-robin: the shares are exact over any stretch of requests.
    shares: dict[int, float] = field(default_factory=dict)
    credits: dict[int, float] = field(default_factory=dict)
    reason: str = ""  # why the last attempt to load it failed

    def share(self, traffic: Mapping[int, float]) -> None:
        if unknown := [version for version in traffic if version not in self.versions]:
            raise BadRequest(f"traffic: version {unknown[0]} of {self.name} is not loaded; {self.listed()}")
        self.shares = dict(traffic) if traffic else {max(self.versions): 1.0}
        self.credits = dict.fromkeys(self.shares, 0.0)

    def next_version(self) -> Version:
        total = sum(self.shares.values())
        for version, share in self.shares.items():
            self.credits[version] += share
        chosen = max(self.credits, key=lambda version: self.credits[version])
        self.credits[chosen] -= total
        return self.versions[chosen]

    def listed(self) -> str:
        return f"loaded: {', '.join(map(str, sorted(self.versions))) or 'none'}"


class Service:
    """Holds all models. Belongs to the event loop that `start` ran in.

    Args:
        settings: what it is told.
        metrics: where it counts; None: its own.

    Raises:
        ValueError: settings that cannot be right.
    """

    def __init__(self, settings: Settings, metrics: Metrics | None = None):
        self.settings = settings
        self.metrics = metrics or Metrics()
        self.stopping = False
        self.reader = Reader()
        self._started = False
        self._repository = None if settings.repository is None else Repository(settings.repository)
        self._fixed: dict[str, Source] = {}
        for name, path in settings.models.items():
            self._fixed[checked_name(name)] = source_in(Path(path))
        self._models: dict[str, _Model] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Load what the settings say.

        Raises:
            ServingError: a model cannot be loaded.
        """
        if self.settings.count_operators:
            monitoring.start(registry=self.metrics.registry)
        names = list(self._fixed)
        if self._repository is not None:
            wanted = self._repository.names() if self.settings.load is None else self.settings.load
            names += [name for name in wanted if name not in self._fixed]
        for name in names:
            await self.load(name)
        self._started = True

    async def stop(self) -> None:
        """Finish what was begun, and unload everything."""
        self.stopping = True
        for model in self._models.values():
            for version in model.versions.values():
                self._retire(version)
        self._models = {}
        await asyncio.gather(*self._closing)
        self.reader.close()
        if self.settings.count_operators:
            monitoring.stop()

    @property
    def ready(self) -> bool:
        """Tell whether requests may come."""
        return self._started and not self.stopping

    async def load(self, name: str, override: Mapping[str, Any] | None = None) -> None:
        """Load a model, or load it again: as its folder is now, in place of what is loaded, once that works.

        Args:
            name: that of the model.
            override: options that go before those of its config.yaml.

        Raises:
            NotFound: there is no such model.
            BadRequest: it cannot be loaded; what was loaded stays.
        """
        checked_name(name)
        async with self._locks.setdefault(name, asyncio.Lock()) if self._is_known(name) else asyncio.Lock():
            made: dict[int, Version] = {}
            try:
                options, sources = await asyncio.to_thread(self._sources, name, override)
                for number, source in sources.items():
                    made[number] = Version(name, number, source, options, self.metrics.of_model(name, str(number)))
                    await made[number].ready()
                model = _Model(name, made)
                model.share(options.traffic)
            except BaseException as error:
                for version in made.values():
                    self._retire(version)
                if isinstance(error, ServingError) and not isinstance(error, NotFound):
                    self._models.setdefault(name, _Model(name)).reason = error.message
                raise
            if self.stopping:
                for version in made.values():
                    self._retire(version)
                raise Unavailable("the server is stopping")
            old, self._models[name] = self._models.get(name), model
            if old is not None:
                for version in old.versions.values():
                    self._retire(version)
        _log.info("loaded %s, %s", name, model.listed())

    async def unload(self, name: str) -> None:
        """Take a model away; requests that it has are completed.

        Args:
            name: that of the model.

        Raises:
            NotFound: it is not loaded.
        """
        model = self._model(name)
        del self._models[name]
        for version in model.versions.values():
            self._retire(version)
        _log.info("unloaded %s", name)

    def set_traffic(self, name: str, traffic: Mapping[int, float]) -> None:
        """Share requests that name no version.

        Args:
            name: that of the model.
            traffic: version -> share.

        Raises:
            BadRequest: a version is not loaded, or a share is not allowed.
        """
        model = self._model(name)
        try:
            ModelOptions(traffic=traffic)
        except ValueError as error:
            raise BadRequest(str(error)) from error
        model.share(traffic)

    def traffic(self, name: str) -> dict[int, float]:
        """Return the shares of the versions.

        Args:
            name: that of the model.
        """
        return dict(self._model(name).shares)

    def names(self) -> list[str]:
        """Return the models that are loaded."""
        return [name for name, model in self._models.items() if model.versions]

    def versions(self, name: str) -> list[Version]:
        """Return the versions of a model that are loaded.

        Args:
            name: that of the model.
        """
        return list(self._model(name).versions.values())

    def version(self, name: str, number: str | None = None) -> Version:
        """Return the version for a request: the one that it names, or one by the shares of the traffic.

        Args:
            name: that of the model.
            number: the version; None: by the shares.

        Raises:
            NotFound: it is not loaded.
        """
        model = self._model(name)
        if number is None or number == "":
            return model.next_version()
        found = (
            model.versions.get(int(number)) if number.isascii() and number.isdecimal() and len(number) < 10 else None
        )
        if found is None:
            raise NotFound(f"version {number[:20]!r} of {name} is not loaded; {model.listed()}")
        return found

    def index(self, only_ready: bool = False) -> list[dict[str, str]]:
        """Return every version of every model, loaded or not, as the repository extension has it.

        Args:
            only_ready: leave out what is not loaded.
        """
        rows = []
        for name in dict.fromkeys([*self._fixed, *(self._repository.names() if self._repository else ())]):
            model = self._models.get(name) or _Model(name)
            known = set(model.versions)
            if name not in self._fixed and self._repository is not None:
                try:
                    known |= set(self._repository.versions(name))
                except ServingError as error:
                    rows.append({"name": name, "version": "", "state": "UNAVAILABLE", "reason": error.message})
            for number in sorted(known):
                is_ready = number in model.versions
                reason = "" if is_ready else model.reason or "unloaded"
                state = "READY" if is_ready else "UNAVAILABLE"
                rows.append({"name": name, "version": str(number), "state": state, "reason": reason})
        return [row for row in rows if row["state"] == "READY"] if only_ready else rows

    def _model(self, name: str) -> _Model:
        model = self._models.get(name)
        if model is None or not model.versions:
            raise NotFound(f"the model {name[:128]!r} is not loaded{suggestion(name[:128], self.names())}")
        return model

    def _is_known(self, name: str) -> bool:
        return name in self._fixed or (self._repository is not None and name in self._repository.names())

    def _sources(self, name: str, override: Mapping[str, Any] | None) -> tuple[ModelOptions, dict[int, Source]]:
        """Return what is to be loaded, by version."""
        try:
            if name in self._fixed:
                return read_options(None, self.settings.defaults, override), {1: self._fixed[name]}
            if self._repository is None:
                raise NotFound(f"there is no model {name}, and the server has no repository")
            found = self._repository.versions(name)
            options = read_options(self._repository.config(name), self.settings.defaults, override)
        except (OSError, ValueError) as error:
            raise BadRequest(f"{name}: {error}") from error
        if not found:
            raise BadRequest(f"the model {name} has no versions: they are folders whose names are numbers")
        if options.versions == "latest":
            numbers = [max(found)]
        else:
            numbers = list(found) if options.versions == "all" else [int(number) for number in options.versions]
        return options, {number: self._repository.source(name, number) for number in dict.fromkeys(numbers)}

    def _retire(self, version: Version) -> None:
        version.retire()
        task = asyncio.get_running_loop().create_task(version.closed())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _open_graph(path: Path, options: ModelOptions) -> GraphNetwork:
    from ms_ascend_ops.serving.graphs import GraphNetwork  # noqa: PLC0415 - with MindSpore, which takes seconds

    return GraphNetwork(path, options)
