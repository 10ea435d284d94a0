import os
import re

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops
from mindspore.train.mind_ir_pb2 import AttributeProto, ModelProto, TensorProto

from ms_ascend_ops import bundle, export_mindir, load, optimize_mindir
from ms_ascend_ops.library import library_path
from tests.acceptance import assert_close
from tests.export.equivalent_forms import HIDDEN
from tests.export.mindir import change, customs, set_function
from tests.tensors import numpy


def test_a_library_that_is_elsewhere_now(file, network, values):
    change(file, set_function("/nowhere/to be found/libms_ascend_ops.so:RmsNorm"))

    def remember_operators(model):
        for attributes in customs(model):
            name = attributes["reg_op_name"].s.decode()
            attributes["func_name"].s = f"/nowhere/to be found/libms_ascend_ops.so:{name}".encode()

    change(file, remember_operators)
    content, modified = file.read_bytes(), file.stat().st_mtime_ns
    assert_close(load(file)(values).asnumpy(), numpy(network(Tensor(values))), rtol=1e-5, atol=1e-6)
    assert (file.read_bytes(), file.stat().st_mtime_ns) == (content, modified)


def test_specification_of_the_inputs(file):
    (spec,) = load(file).inputs
    assert (spec.name, spec.shape, spec.dtype) == ("x", (-1, -1, HIDDEN), ms.float32)


def test_wrong_inputs(file, values):
    network = load(file)
    with pytest.raises(TypeError, match=r"the network takes 1 inputs \(x: float32 \(any, any, 24\)\), got 0"):
        network()
    with pytest.raises(TypeError, match=r"input must be x: float32 \(any, any, 24\), got float16"):
        network(values.astype(np.float16))
    with pytest.raises(ValueError, match=r"input must be x: float32 \(any, any, 24\), got \(3, 5, 23\)"):
        network(values[..., 1:])
    with pytest.raises(ValueError, match=r"got \(5, 24\)"):
        network(values[0])
    with pytest.raises(TypeError, match="x must be a Tensor or a NumPy array, got list"):
        network([1.0])


def test_a_file_that_is_cut_short(file):
    content = file.read_bytes()
    for size in {0, 1, len(content) // 2, *range(len(content) - 300, len(content)), *range(0, len(content), 997)}:
        file.write_bytes(content[:size])
        with pytest.raises(ValueError, match="cut short"):
            load(file)


def custom(which, **fields):
    """Fields of an attribute of those operators that have it."""

    def function(model):
        for attributes in customs(model):
            for field, value in fields.items() if which in attributes else ():
                setattr(attributes[which], field, value)

    return function


def in_a_constant(model, tensor):
    constant = model.graph.node.add(op_type="Constant", name="t", output=["t"])
    constant.attribute.add(name="value", type=AttributeProto.TENSORS).tensors.append(tensor)


def in_a_tuple(model, tensor):
    constant = model.functions.add(name="function").node.add(op_type="Constant", name="t", output=["t"])
    value = constant.attribute.add(name="value", type=AttributeProto.TUPLE)
    value.values.add(type=AttributeProto.TENSORS).tensors.append(tensor)


def in_an_attribute(model, tensor):
    model.primitives[0].attribute.add(name="t", type=AttributeProto.TENSORS).tensors.append(tensor)


def in_a_parameter(model, tensor):
    model.graph.parameter.append(tensor)


def tensor_of(put, dims):
    size = dims[0] * dims[1] * 4
    tensor = TensorProto(name="t", ref_key="t", dims=dims, data_type=TensorProto.FLOAT, raw_data=bytes(size))
    return lambda model: put(model, tensor)


# As MindIR of older versions has it: the attributes are in the node itself.
INLINE = [AttributeProto(name="func_type", s=b"aot"), AttributeProto(name="func_name", s=b"/tmp/evil.so:Function")]
REFUSED = [
    (set_function("/tmp/other.so:RmsNorm"), r"is refused: it names the library .*other\.so"),
    (set_function("other.so:RmsNorm"), r"is refused: it names the library .*other\.so"),
    (set_function("libms_ascend_ops.so"), r"is refused: it names the library .*libms_ascend_ops\.so"),
    (set_function("/tmp/libms_ascend_ops.so.1:RmsNorm"), r"is refused: .* library .*libms_ascend_ops\.so\.1"),
    (
        lambda model: model.primitives[0].attribute.add(name="anything").values.add(s=b"/tmp/evil.so:Function"),
        r"names the library /tmp/evil\.so:Function",
    ),
    (
        lambda model: model.graph.node.add(op_type="Custom", name="evil", output=["evil"], attribute=INLINE),
        r"names the library /tmp/evil\.so",
    ),
    (custom("func_type", s=b"pyfunc"), "is refused: it holds a Custom of kind"),
    (custom("imply_path", s=b"/tmp/evil.py"), "is refused: it holds a Custom of kind"),
    (lambda model: model.primitives.add(name="P:99", op_type="PyExecute"), "PyExecute, which runs Python code"),
    (set_function(f"{library_path()}:Softmax9"), "needs the operator Softmax9, which this version .* does not have"),
    (custom("op_version", i=99), r"needs version 99 of the operator \w+, .* has version 1: upgrade"),
    (custom("epsilon", f=-1.0), "is refused: .*epsilon must be > 0"),
    (custom("epsilon", type=8), "is refused: .*epsilon must be a float, got str"),
    (custom("epsilon", name="eps"), "is refused: .*has no attribute epsilon"),
    (custom("scheme", s=b"none"), "is refused: .*scheme must be 'round_then_scale' or 'one_"),
    (
        lambda model: setattr(model.graph.parameter[0], "raw_data", model.graph.parameter[0].raw_data[:-4]),
        "the data of parameter .* is not whole",
    ),
    # Not those of what a node describes: in the file before, batch and sequence are open.
    *(
        (tensor_of(put, dims), rf"damaged \(.* has the dims {re.escape(str(dims))}\)$")
        for put in (in_a_constant, in_a_tuple, in_an_attribute, in_a_parameter)
        for dims in ((-2, -3), (-1, 0))
    ),
    # What would abort MindSpore, found by damage at random (mutations.py).
    (lambda model: model.graph.node[0].attribute.pop(), "the constant .* has no value"),
    (
        lambda model: setattr(model.primitives[0].attribute.add(), "type", 19),
        r"an attribute of a \w+ lacks its value",
    ),
    (lambda model: model.graph.input[0].tensor[0].quant_params.add(), r"it has no graph\.input\[0\]"),
]


@pytest.mark.parametrize(("function", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused(file, function, message):
    load(file)
    model = ModelProto.FromString(file.read_bytes())
    function(model)
    file.write_bytes(model.SerializePartialToString())
    with pytest.raises(ValueError, match=message):
        load(file)


def test_not_a_mindir(tmp_path):
    for path in (None, 3, b"none.mindir"):
        with pytest.raises(TypeError, match=rf"^load: path must be a str or a path, got {type(path).__name__}$"):
            load(path)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        load(tmp_path / "none.mindir")
    (tmp_path / "text.mindir").write_text("print('hello')\n")
    with pytest.raises(ValueError, match=r"text\.mindir is not a MindIR file"):
        load(tmp_path / "text.mindir")


class AddsZeros(nn.Cell):
    def construct(self, x):
        return ops.zeros((2, 3), ms.float32) + x


def test_a_network_that_hands_on_its_input(tmp_path):
    """MindSpore folds the sum, and the file has no node."""
    x = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    file = export_mindir(AddsZeros(), x, path=tmp_path / "sum")
    assert not ModelProto.FromString(file.read_bytes()).graph.node
    optimize_mindir(file, tmp_path / "optimized.mindir", level="O3")
    for path in (file, tmp_path / "optimized.mindir", bundle(file, tmp_path / "bundled")):
        result = load(path)(x + 1)
        np.testing.assert_array_equal(result.asnumpy(), x.asnumpy() + 1)


def test_the_file_is_complete_or_absent(network, file, tmp_path):
    content = file.read_bytes()
    x = Tensor(np.zeros((1, 1, HIDDEN), np.float32))
    with pytest.raises(Exception, match=r"."):
        export_mindir(network, x, x, path=file)
    assert file.read_bytes() == content
    assert ms.get_context("jit_syntax_level") != ms.STRICT
    export_mindir(network, x, path=file)  # over the old one
    assert load(file).inputs[0].shape == (1, 1, HIDDEN)
    assert [name for name in os.listdir(tmp_path) if name.startswith(".")] == []


def test_others_may_read_the_file(file, tmp_path):
    (tmp_path / "like").touch()
    assert file.stat().st_mode == (tmp_path / "like").stat().st_mode


def test_training_network_is_exported_for_evaluation(network, values, tmp_path):
    expected = numpy(network(Tensor(values)))
    network.set_train()
    file = export_mindir(network, Tensor(values), path=tmp_path / "from_training")
    assert file.name == "from_training.mindir"
    assert network.training
    assert network.dropout.training
    network.set_train(False)
    assert_close(load(file)(values).asnumpy(), expected, rtol=1e-5, atol=1e-6)


def test_dimensions_unknown_by_the_tensor(network, values, tmp_path):
    x = Tensor(shape=[None, 5, HIDDEN], dtype=ms.float32)
    loaded = load(export_mindir(network, x, path=tmp_path / "network"))
    assert loaded.inputs[0].shape == (-1, 5, HIDDEN)
    assert loaded(values[:2]).shape == (2, 5, HIDDEN)


def test_bad_arguments(network, values, tmp_path):
    x = Tensor(values)
    with pytest.raises(TypeError, match=r"net must be a mindspore\.nn\.Cell, got function"):
        export_mindir(lambda x: x, x, path=tmp_path / "network")
    with pytest.raises(TypeError, match="input 0 must be a Tensor, got ndarray"):
        export_mindir(network, values, path=tmp_path / "network")
    with pytest.raises(ValueError, match=r"must be in a folder that exists, got .*missing"):
        export_mindir(network, x, path=tmp_path / "missing" / "network")
    with pytest.raises(ValueError, match="one of 1 inputs by position, got 1"):
        export_mindir(network, x, path=tmp_path / "network", dynamic={1: (0,)})
    with pytest.raises(ValueError, match=r"dynamic\[0\] must name axes of 3, got 3"):
        export_mindir(network, x, path=tmp_path / "network", dynamic={0: (3,)})
    assert os.listdir(tmp_path) == []


def test_parameters_in_a_folder(small_limit, network, values, tmp_path):
    first = export_mindir(network, Tensor(values), path=tmp_path / "big")
    folders = {name for name in os.listdir(tmp_path) if name.startswith("big_variables.")}
    assert len(folders) == 1
    assert_close(load(first)(values).asnumpy(), numpy(network(Tensor(values))), rtol=1e-5, atol=1e-6)
    export_mindir(network, Tensor(values), path=first)
    again = {name for name in os.listdir(tmp_path) if name.startswith("big_variables.")}
    assert len(again) == 1
    assert again != folders  # the old folder went with the old file


def test_parameters_outside_of_the_folder_are_refused(small_limit, network, values, tmp_path):
    file = export_mindir(network, Tensor(values), path=tmp_path / "big")

    def move(model):
        model.graph.parameter[0].external_data.location = "../secret"

    change(file, move)
    with pytest.raises(ValueError, match=r"is refused: its parameters are in \.\./secret"):
        load(file)


def test_missing_parameters(small_limit, network, values, tmp_path):
    file = export_mindir(network, Tensor(values), path=tmp_path / "big")
    (folder,) = tmp_path.glob("big_variables.*")
    folder.rename(tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError, match=r"the parameters of .* are missing"):
        load(file)


def test_a_node_without_a_version_is_of_the_first(file, network, values):
    def drop_version(model):
        for primitive in model.primitives:
            kept = [attribute for attribute in primitive.attribute if attribute.name != "op_version"]
            del primitive.attribute[:]
            primitive.attribute.extend(kept)

    change(file, drop_version)
    assert_close(load(file)(values).asnumpy(), numpy(network(Tensor(values))), rtol=1e-5, atol=1e-6)


def test_a_later_mindspore(file):
    change(file, lambda model: setattr(model, "model_version", "2.99.0"))
    with pytest.raises(RuntimeError, match=r"written by MindSpore 2\.99\.0, and this is .*: upgrade MindSpore"):
        load(file)


def test_a_later_mindspore_that_was_tried(file, network, values, monkeypatch):
    """What it has that this one lacks is an error of the first call, which says whose file it is."""
    expected = numpy(network(Tensor(values)))
    change(file, lambda model: setattr(model, "model_version", "2.10.0"))
    monkeypatch.setattr(ms, "__version__", "2.7.1")
    assert_close(load(file)(values).asnumpy(), expected, rtol=1e-5, atol=1e-6)

    change(file, lambda model: setattr(stock(model), "op_type", "OfTomorrow"))
    with pytest.raises(
        (RuntimeError, ValueError), match=r"OfTomorrow.*written by MindSpore 2\.10\.0, and this is 2\.7\.1"
    ):
        load(file)(values)
    monkeypatch.setattr(ms, "__version__", "2.10.0")
    with pytest.raises((RuntimeError, TypeError, ValueError)) as error:
        load(file)(values)
    assert "written by" not in str(error.value)


def stock(model):
    return next(primitive for primitive in model.primitives if primitive.op_type != "Custom")


def test_parameters_behind_a_link_that_leads_out_are_refused(small_limit, network, values, tmp_path):
    (tmp_path / "in").mkdir()
    file = export_mindir(network, Tensor(values), path=tmp_path / "in" / "big")
    (folder,) = (tmp_path / "in").glob("big_variables.*")
    folder.rename(tmp_path / "secret")
    folder.symlink_to(tmp_path / "secret")
    with pytest.raises(ValueError, match=r"is refused: its parameters are in .*, outside of its folder"):
        load(file)


def test_parameters_that_are_cut_short(small_limit, network, values, tmp_path):
    file = export_mindir(network, Tensor(values), path=tmp_path / "big")
    (data,) = [path for path in tmp_path.glob("big_variables.*/*") if path.is_file()]
    data.chmod(0o600)
    data.write_bytes(data.read_bytes()[:-64])
    with pytest.raises(ValueError, match=r"the parameters of .* are cut short"):
        load(file)
