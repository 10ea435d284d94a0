"""Runs Ray Serve in a process of its own: `ray_process PORT REPLICAS stock|MODEL`."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ms_ascend_ops.benchmarks.serving.network import HIDDEN, stock_network
from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ms_ascend_ops.serving.ray_serve import application
from ms_ascend_ops.serving.settings import Settings

__all__ = ["main"]


class Stock:
    """Serves as one would with Ray Serve and MindSpore alone: as much of the protocol as the load uses."""

    def __init__(self) -> None:
        import mindspore as ms
        from mindspore import Tensor

        ms.set_context(mode=ms.GRAPH_MODE)
        self._network = stock_network()
        self._network.set_inputs(Tensor(shape=[None, None, HIDDEN], dtype=ms.float32))
        self._run(np.ones((1, 1, HIDDEN), np.float32))

    async def __call__(self, request: Request) -> Response:
        if request.method == "GET":
            return JSONResponse({"ready": True})
        body = await request.body()
        length = request.headers.get("Inference-Header-Content-Length")
        fields = json.loads(body if length is None else body[: int(length)])
        entry = fields["inputs"][0]
        if length is None:
            x = np.array(entry["data"], np.float32).reshape(entry["shape"])
        else:
            x = np.frombuffer(body, np.float32, offset=int(length)).reshape(entry["shape"])
        y = await self._batched(x)
        output: dict[str, Any] = {"name": "y", "datatype": "FP32", "shape": list(y.shape)}
        if length is None:
            return JSONResponse({"outputs": [output | {"data": y.ravel().tolist()}]})
        output["parameters"] = {"binary_data_size": y.nbytes}
        head = json.dumps({"outputs": [output]}).encode()
        return Response(head + y.tobytes(), headers={"Inference-Header-Content-Length": str(len(head))})

    @serve.batch(max_batch_size=16, batch_wait_timeout_s=0.002)  # type: ignore[untyped-decorator, unused-ignore]
    async def _batched(self, inputs: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        # Batch requests of one length, as this package's server does.
        results: dict[int, np.ndarray[Any, Any]] = {}
        for length in {x.shape[1] for x in inputs}:
            own = [index for index, x in enumerate(inputs) if x.shape[1] == length]
            together = self._run(np.concatenate([inputs[index] for index in own]))
            cuts = np.cumsum([len(inputs[index]) for index in own])[:-1]
            results |= dict(zip(own, np.split(together, cuts), strict=True))
        return [results[index] for index in range(len(inputs))]

    def _run(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        from mindspore import Tensor

        y: np.ndarray[Any, Any] = self._network(Tensor(x)).asnumpy()
        return y


def main(port: int, replicas: int, model: str) -> None:
    """Serve until a signal."""
    ray.init(num_cpus=max(2, replicas), include_dashboard=False, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    if model == "stock":
        deployment = serve.deployment(Stock, num_replicas=replicas, max_ongoing_requests=64)  # type: ignore[call-overload]
        serve.run(deployment.bind())
    else:
        settings = Settings(models={"network": Path(model)}, defaults={"max_batch_size": 16})
        serve.run(application(settings, replicas))
    signal.sigwait([signal.SIGTERM, signal.SIGINT])
    serve.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
