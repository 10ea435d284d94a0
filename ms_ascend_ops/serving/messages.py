"""Holds the messages of the Open Inference Protocol's gRPC service, and those of the repository extension.

Descriptors are made of the table below when this is imported. So there is no generated code, which would only fit the
protobuf that it was made for, and none of these names is in protobuf's default pool, where a client in the same process
has the same ones. tests/serving/test_clients.py compares every field with those of tritonclient.

Source: https://github.com/kserve/open-inference-protocol (specification/protocol/open_inference_grpc.proto)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

__all__ = ["METHODS", "PACKAGE", "SERVICE", "message"]

PACKAGE = "inference"
SERVICE = "inference.GRPCInferenceService"
METHODS = (
    "ServerLive", "ServerReady", "ModelReady", "ServerMetadata", "ModelMetadata", "ModelInfer", "ModelConfig",
    "ModelStatistics", "RepositoryIndex", "RepositoryModelLoad", "RepositoryModelUnload",
)  # fmt: skip

# Message -> its fields, "[repeated ]type name" or "map type name", numbered from 1 on, or with a number of its own
# behind the name ("int32 max_batch_size 4"). A dot in the name of a message: it stands in another one.
_PARAMETERS = "map InferParameter parameters"
_MESSAGES: Mapping[str, tuple[str, ...]] = {
    "ServerLiveRequest": (),
    "ServerLiveResponse": ("bool live",),
    "ServerReadyRequest": (),
    "ServerReadyResponse": ("bool ready",),
    "ModelReadyRequest": ("string name", "string version"),
    "ModelReadyResponse": ("bool ready",),
    "ServerMetadataRequest": (),
    "ServerMetadataResponse": ("string name", "string version", "repeated string extensions"),
    "ModelMetadataRequest": ("string name", "string version"),
    "ModelMetadataResponse": (
        "string name",
        "repeated string versions",
        "string platform",
        "repeated ModelMetadataResponse.TensorMetadata inputs",
        "repeated ModelMetadataResponse.TensorMetadata outputs",
    ),
    "ModelMetadataResponse.TensorMetadata": ("string name", "string datatype", "repeated int64 shape"),
    "InferParameter": (
        "bool bool_param",
        "int64 int64_param",
        "string string_param",
        "double double_param",
        "uint64 uint64_param",
    ),
    "InferTensorContents": (
        "repeated bool bool_contents",
        "repeated int32 int_contents",
        "repeated int64 int64_contents",
        "repeated uint32 uint_contents",
        "repeated uint64 uint64_contents",
        "repeated float fp32_contents",
        "repeated double fp64_contents",
        "repeated bytes bytes_contents",
    ),
    "ModelInferRequest": (
        "string model_name",
        "string model_version",
        "string id",
        _PARAMETERS,
        "repeated ModelInferRequest.InferInputTensor inputs",
        "repeated ModelInferRequest.InferRequestedOutputTensor outputs",
        "repeated bytes raw_input_contents",
    ),
    "ModelInferRequest.InferInputTensor": (
        "string name",
        "string datatype",
        "repeated int64 shape",
        _PARAMETERS,
        "InferTensorContents contents",
    ),
    "ModelInferRequest.InferRequestedOutputTensor": ("string name", _PARAMETERS),
    "ModelInferResponse": (
        "string model_name",
        "string model_version",
        "string id",
        _PARAMETERS,
        "repeated ModelInferResponse.InferOutputTensor outputs",
        "repeated bytes raw_output_contents",
    ),
    "ModelInferResponse.InferOutputTensor": (
        "string name",
        "string datatype",
        "repeated int64 shape",
        _PARAMETERS,
        "InferTensorContents contents",
    ),
    "ModelRepositoryParameter": ("bool bool_param", "int64 int64_param", "string string_param", "bytes bytes_param"),
    "RepositoryIndexRequest": ("string repository_name", "bool ready"),
    "RepositoryIndexResponse": ("repeated RepositoryIndexResponse.ModelIndex models",),
    "RepositoryIndexResponse.ModelIndex": ("string name", "string version", "string state", "string reason"),
    "RepositoryModelLoadRequest": (
        "string repository_name",
        "string model_name",
        "map ModelRepositoryParameter parameters",
    ),
    "RepositoryModelLoadResponse": (),
    "RepositoryModelUnloadRequest": (
        "string repository_name",
        "string model_name",
        "map ModelRepositoryParameter parameters",
    ),
    "RepositoryModelUnloadResponse": (),
    # Triton's configuration has a hundred fields; these say something here.
    "ModelConfigRequest": ("string name", "string version"),
    "ModelConfigResponse": ("ModelConfig config",),
    "ModelConfig": (
        "string name",
        "string platform",
        "int32 max_batch_size 4",
        "repeated ModelInput input 5",
        "repeated ModelOutput output 6",
        "ModelDynamicBatching dynamic_batching 11",
        "string backend 17",
    ),
    "ModelInput": ("string name", "int32 data_type", "repeated int64 dims 4"),
    "ModelOutput": ("string name", "int32 data_type", "repeated int64 dims"),
    "ModelDynamicBatching": ("uint64 max_queue_delay_microseconds 2",),
    "ModelStatisticsRequest": ("string name", "string version"),
    "ModelStatisticsResponse": ("repeated ModelStatistics model_stats",),
    "ModelStatistics": (
        "string name",
        "string version",
        "uint64 last_inference",
        "uint64 inference_count",
        "uint64 execution_count",
        "InferStatistics inference_stats",
        "repeated InferBatchStatistics batch_stats",
    ),
    "StatisticDuration": ("uint64 count", "uint64 ns"),
    "InferStatistics": (
        "StatisticDuration success",
        "StatisticDuration fail",
        "StatisticDuration queue",
        "StatisticDuration compute_input",
        "StatisticDuration compute_infer",
        "StatisticDuration compute_output",
    ),
    "InferBatchStatistics": ("uint64 batch_size", "StatisticDuration compute_infer 3"),
}
_ONE_OF = {"InferParameter": "parameter_choice", "ModelRepositoryParameter": "parameter_choice"}

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = ("bool", "int32", "int64", "uint32", "uint64", "float", "double", "string", "bytes")


def message(name: str) -> Any:
    """Return the class of a message."""
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))


def _file() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="ms_ascend_ops/open_inference.proto", package=PACKAGE, syntax="proto3"
    )
    made: dict[str, Any] = {}
    for name, fields in _MESSAGES.items():
        outer, _, short = name.rpartition(".")
        made[name] = (made[outer].nested_type if outer else file.message_type).add(name=short)
        if name in _ONE_OF:
            made[name].oneof_decl.add(name=_ONE_OF[name])
        for number, text in enumerate(fields, 1):
            words = text.split()
            own = int(words.pop()) if words[-1].isdecimal() else number
            _add(made[name], name, own, *words)
    return file


def _add(holder: Any, path: str, number: int, *words: str) -> None:
    *label, kind, name = words
    repeated = _Field.LABEL_REPEATED if label else _Field.LABEL_OPTIONAL
    field = holder.field.add(name=name, number=number, label=repeated, json_name=_camel(name))
    if label == ["map"]:
        entry = holder.nested_type.add(name=f"{_camel(name)[0].upper()}{_camel(name)[1:]}Entry")
        entry.options.map_entry = True
        _add(entry, "", 1, "string", "key")
        _add(entry, "", 2, kind, "value")
        kind = f"{path}.{entry.name}"
    if kind in _SCALARS:
        field.type = getattr(_Field, f"TYPE_{kind.upper()}")
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{PACKAGE}.{kind}"
    if path in _ONE_OF:
        field.oneof_index = 0


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


_pool = descriptor_pool.DescriptorPool()
_pool.AddSerializedFile(_file().SerializeToString())
