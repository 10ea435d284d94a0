"""Random damage to files, the same for the same seed: bytes of any file, fields of a protobuf."""

import random

from google.protobuf.descriptor import FieldDescriptor
from mindspore.train.mind_ir_pb2 import ModelProto

_NUMBERS = (0, 1, -1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 7)
_TEXTS = (
    "",
    "x",
    "Custom",
    "REF::Custom:1",
    "REF::",
    "Constant",
    "PyExecute",
    "value",
    "shape",
    "func_name",
    "/tmp/evil.so:Evil",
    "libms_ascend_ops.so:RmsNorm",
    "../../etc/passwd",
    "\0",
    "A" * 300,
)


def mutate_bytes(content, seed):
    """Flip, cut out, repeat or overwrite a few pieces."""
    rng = random.Random(seed)
    data = bytearray(content)
    for _ in range(rng.randint(1, 8)):
        at, size = rng.randrange(len(data) + 1), min(rng.choice((1, 1, 2, 8, 64)), len(data))
        piece = bytes(data[at : at + size])
        kind = rng.randrange(5)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[at : at + size]
        elif kind == 2:
            data[at:at] = piece * rng.randint(1, 4)
        elif kind == 3:
            data[at : at + size] = rng.randbytes(len(piece))
        else:
            data[at : at + size] = bytes([rng.choice((0, 0x7F, 0x80, 0xFF))]) * len(piece)
        if not data:
            break
    return bytes(data)


def mutate_model(content, seed, kind=ModelProto):
    """Change a few fields of the protobuf, of a MindIR unless another kind is given; it stays well-formed."""
    rng = random.Random(seed)
    model = kind.FromString(content)
    for _ in range(rng.randint(1, 4)):
        message = model
        while True:
            below = [m for field, value in message.ListFields() for m in _messages(field, value)]
            if not below or rng.random() < 0.1:
                break
            message = rng.choice(below)
        _change(message, rng)
    return model.SerializePartialToString()


def _is_map(field):
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _messages(field, value):
    if field.message_type is None or _is_map(field):
        return []
    return list(value) if _is_repeated(field) else [value]


def _is_repeated(field):
    return getattr(field, "is_repeated", None) or getattr(field, "label", None) == FieldDescriptor.LABEL_REPEATED


def _change(message, rng):
    fields = [field for field in message.DESCRIPTOR.fields if not _is_map(field)]
    present = [field for field, _ in message.ListFields() if not _is_map(field)]
    field = rng.choice(present if present and rng.random() < 0.9 else fields)
    if rng.random() < 0.2:
        message.ClearField(field.name)
        return
    if _is_repeated(field):
        items = getattr(message, field.name)
        if items and rng.random() < 0.5:
            del items[rng.randrange(len(items))]
        elif items and field.message_type is not None:
            items.add().CopyFrom(rng.choice(items))
        elif field.message_type is not None:
            items.add()
        else:
            items.append(_value(field, rng))
    elif field.message_type is not None:
        getattr(message, field.name).SetInParent()
    else:
        setattr(message, field.name, _value(field, rng))


def _value(field, rng):
    if field.type == FieldDescriptor.TYPE_STRING:
        return rng.choice(_TEXTS)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return rng.choice(_TEXTS).encode()
    if field.type == FieldDescriptor.TYPE_BOOL:
        return rng.random() < 0.5
    if field.type == FieldDescriptor.TYPE_ENUM:
        return rng.choice(field.enum_type.values).number
    if field.type in (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE):
        return rng.choice((0.0, -1.0, float("nan"), float("inf"), 1e38))
    value = rng.choice(_NUMBERS)
    if field.type in (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_UINT32):
        value = abs(value)
    if field.type in (FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_UINT32):
        value = max(-(2**31), min(2**31 - 1, value))
    return max(-(2**63), min(2**63 - 1, value))
