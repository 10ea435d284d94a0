"""Run the same application under Ray Serve: replicas on one machine or on many, balanced, restarted and scaled by Ray.

    serve run ms_ascend_ops.serving.ray_serve:build models='{"block": "/models/block.msbundle"}' replicas=2

or by `import_path` and `args` of a configuration (examples/serving/). `pip install 'ms_ascend_ops[ray,serve]'`
brings what it needs.

Each replica is a process that loads the models itself and batches its own requests. Ray's proxy takes HTTP only. A
request to load or unload a model would reach one replica of several: such requests are refused, and `serve deploy`
changes models.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ray import serve

from ms_ascend_ops.serving.settings import Settings

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["application", "build"]


def application(
    settings: Settings, replicas: int | str = 1, threads: int = 1, requests: int = 64, **options: Any
) -> serve.Application:  # fmt: skip
    """Build an application for `ray.serve.run`.

    Args:
        settings: models, limits, keys; the paths must be there on every machine.
        replicas: how many; "auto": as many as Ray finds necessary.
        threads: CPUs of a replica.
        requests: that a replica has at once at most; the proxy keeps more, or gives them to others.
        options: of `ray.serve.deployment`, such as `autoscaling_config` or `max_queued_requests`.
    """
    fixed = replace(settings, fixed=True)

    def make() -> FastAPI:
        from ms_ascend_ops.library import set_num_threads  # noqa: PLC0415 - in the process of the replica
        from ms_ascend_ops.serving.application import create_app  # noqa: PLC0415

        set_num_threads(threads)
        return create_app(fixed)

    deployment = serve.deployment(
        serve.ingress(make)(), name="ms_ascend_ops", num_replicas=replicas, max_ongoing_requests=requests,
        ray_actor_options={"num_cpus": threads}, **options,
    )  # fmt: skip
    app: serve.Application = deployment.bind()
    return app


def build(args: Mapping[str, Any]) -> serve.Application:
    """Make it from the arguments of `serve run` or of a configuration of Ray Serve, of which the former are texts.

    Args:
        args: `replicas`, `threads` and `requests` as above; everything else are fields of `Settings`.

    Raises:
        TypeError: there is no such field.
    """
    values = {name: _value(value) for name, value in args.items()}
    own = {name: values.pop(name) for name in ("replicas", "threads", "requests") if name in values}
    for name in ("api_keys", "admin_keys", "load"):
        if isinstance(values.get(name), list):
            values[name] = tuple(values[name])
    return application(Settings(**values), **own)


def _value(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value
