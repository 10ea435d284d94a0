"""tritonclient against a server: `triton.py http|grpc ADDRESS KEY`, inputs and expected outputs as JSON on stdin."""

import json
import sys
from importlib import import_module

import numpy as np
from tritonclient.utils import InferenceServerException

protocol, address, key = sys.argv[1:]
expected = json.load(sys.stdin)
module = import_module(f"tritonclient.{protocol}")
x, y = (np.array(expected[name], np.float32) for name in "xy")
# Names of gRPC's metadata are in small letters.
headers = {"authorization": f"Bearer {key}"}
client = module.InferenceServerClient(address)


def inputs(binary=True, **changed):
    made = []
    for name, value in {"x": x, "y": y, **changed}.items():
        made.append(module.InferInput(name, value.shape, "FP32"))
        if protocol == "http":
            made[-1].set_data_from_numpy(value, binary_data=binary)
        else:
            made[-1].set_data_from_numpy(value)
    return made


def refused(text, call):
    try:
        call()
    except InferenceServerException as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"not refused: {text}")


assert client.is_server_live(headers=headers)
assert client.is_server_ready(headers=headers)
assert client.is_model_ready("block", headers=headers)
assert client.is_model_ready("block", "2", headers=headers)
metadata = client.get_model_metadata("block", headers=headers)
names = [one["name"] for one in metadata["inputs"]] if protocol == "http" else [one.name for one in metadata.inputs]
assert names == ["x", "y"]


# What was counted before is not known: other tests asked, too.
config = client.get_model_config("block", headers=headers)
config = config if protocol == "http" else {"max_batch_size": config.config.max_batch_size, "name": config.config.name}
assert (config["name"], config["max_batch_size"]) == ("block", 16)


def counted():
    answer = client.get_inference_statistics("block", "1", headers=headers)
    (one,) = answer["model_stats"] if protocol == "http" else answer.model_stats
    return one["inference_count"] if protocol == "http" else one.inference_count


before = counted()


def infer(given, **options):
    # tritonclient keeps the length of a header in this: a dictionary of its own for each request.
    return client.infer("block", given, headers=dict(headers), **options)


for version, output in expected["outputs"].items():
    result = infer(inputs(), model_version=version, request_id="17")
    assert np.allclose(result.as_numpy("output_0"), np.array(output), rtol=1e-5, atol=1e-5)
    assert np.array_equal(result.as_numpy("output_1"), x.astype(np.float16))
assert counted() == before + len(x)
result = infer(inputs(), outputs=[module.InferRequestedOutput("output_1")], timeout=10_000_000)
assert result.as_numpy("output_0") is None
if protocol == "http":
    wanted = [module.InferRequestedOutput("output_0", binary_data=False)]
    result = infer(inputs(binary=False), model_version="1", outputs=wanted)
    assert np.allclose(result.as_numpy("output_0"), np.array(expected["outputs"]["1"]), rtol=1e-5, atol=1e-5)
    answers = [client.async_infer("block", inputs(), headers=dict(headers)) for _ in range(20)]
    assert all(answer.get_result().as_numpy("output_1").shape == x.shape for answer in answers)

refused("the input y is missing", lambda: infer(inputs()[:1]))
refused("the size s must be 5, got [3, 4, 8]", lambda: infer(inputs(y=y[:, :4])))
refused("is not loaded", lambda: client.infer("other", inputs(), headers=dict(headers)))
refused("is not loaded", lambda: infer(inputs(), model_version="3"))
refused("give a key", lambda: client.infer("block", inputs()))
refused("may not change the models", lambda: client.unload_model("block", headers=headers))

admin = {"authorization": "Bearer root"}
client.load_model("block", headers=admin, config=json.dumps({"versions": [2], "traffic": {}}))
assert not client.is_model_ready("block", "1", headers=headers)
index = client.get_model_repository_index(headers=admin)
rows = index if protocol == "http" else [
    {"name": one.name, "version": one.version, "state": one.state} for one in index.models
]  # fmt: skip
assert {row["version"]: row["state"] for row in rows if row["name"] == "block"} == {"1": "UNAVAILABLE", "2": "READY"}
client.unload_model("block", headers=admin)
refused("is not loaded", lambda: infer(inputs()))
client.load_model("block", headers=admin)
assert infer(inputs(), model_version="1").as_numpy("output_0").shape == x.shape
