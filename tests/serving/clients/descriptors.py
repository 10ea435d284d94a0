"""Prints the fields of messages as tritonclient has them: `descriptors.py MESSAGE...`."""

import json
import sys

from tritonclient.grpc import model_config_pb2, service_pb2


def find(name):
    outer, *inner = name.split(".")
    known = service_pb2.DESCRIPTOR.message_types_by_name
    found = known[outer] if outer in known else model_config_pb2.DESCRIPTOR.message_types_by_name[outer]
    for part in inner:
        found = found.nested_types_by_name[part]
    return found


def describe(field):
    repeated = field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED
    nested = field.message_type.full_name if field.message_type else None
    one_of = field.containing_oneof.name if field.containing_oneof else None
    kind = field.TYPE_INT32 if field.type == field.TYPE_ENUM else field.type  # the same bytes
    return [field.name, field.number, kind, bool(repeated), nested, one_of]


print(json.dumps({name: [describe(field) for field in find(name).fields] for name in sys.argv[1:]}))
