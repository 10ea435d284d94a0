"""Changing MindIR files, as damage or malice would."""

from mindspore.train.mind_ir_pb2 import ModelProto


def change(file, function):
    model = ModelProto()
    model.ParseFromString(file.read_bytes())
    function(model)
    file.write_bytes(model.SerializeToString())


def customs(model):
    return [{a.name: a for a in p.attribute} for p in model.primitives if p.op_type == "Custom"]


def set_function(text):
    def function(model):
        for attributes in customs(model):
            attributes["func_name"].s = text.encode()

    return function
