"""The plugin by which ATC reads our operators in ONNX models, against the emulated device's registration."""

import json
import subprocess

import pytest
from codegen.ascend import onnx_plugin

from ms_ascend_ops import registry
from tests.kernels.ascend import module

# Reads "TYPE<tab>JSON" lines, and says what the plugin makes of each.
MAIN = """#include <iostream>
#include "onnx_plugin.cpp"
int main()
{
    for (std::string line; std::getline(std::cin, line);) {
        const size_t tab = line.find('\\t');
        const auto found = domi::Plugins().find(line.substr(0, tab));
        if (found == domi::Plugins().end()) {
            std::cout << "unknown\\n";
            continue;
        }
        ge::Operator node, op;
        if (tab + 1 < line.size()) {
            node.attributes["attribute"] = line.substr(tab + 1);
        }
        if (found->second.parse(node, op) != domi::SUCCESS) {
            std::cout << "failed\\n";
            continue;
        }
        std::cout << found->second.type;
        for (const auto& [name, value] : op.attributes) {
            std::cout << '|' << name << '=' << value;
        }
        std::cout << '\\n';
    }
}
"""


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    """What the plugin says to (type, list of attributes in ATC's form)."""
    folder = tmp_path_factory.mktemp("plugin")
    module.project.write(list(module.kernels().values()), module.SOURCE, folder / "project", None, own_cmake=True)
    source = folder / "project" / onnx_plugin.FOLDER
    (source / "main.cpp").write_text(MAIN)
    includes = [f"-I{module.DEVICE / 'include'}", f"-I{source}"]
    warnings = ["-Wall", "-Wextra", "-Werror"]
    program = folder / "plugin"
    subprocess.run(["g++", "-std=c++17", "-O0", *warnings, *includes, source / "main.cpp", "-o", program], check=True)

    def ask(*questions):
        lines = [f"{name}\t{json.dumps({'attribute': given}) if given else ''}\n" for name, given in questions]
        done = subprocess.run([program], input="".join(lines), capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    return ask


def attribute(spec, value):
    """As CANN's parser writes it: keys in the order of the alphabet, floats as texts."""
    number, field = {"float": (1, "f"), "string": (3, "s")}.get(spec.type, (2, "i"))
    given = f"{value:g}" if spec.type == "float" else value if spec.type == "string" else int(value)
    return dict(sorted({"name": spec.name, "type": number, field: given}.items()))


def said(spec, value):
    """As the header of the emulated device writes what the operator's definition asks for: of a choice its index."""
    if spec.type == "float":
        return f"{spec.name}=float {value:.6f}"
    return f"{spec.name}=int {spec.choices.index(value)}" if spec.choices else f"{spec.name}={spec.type} {value:d}"


def test_every_operator_and_attribute(plugin):
    values = {"int": 7, "bool": True, "float": 0.25}
    questions, expected = [], []
    for name in registry.names():
        signature = registry.op_spec(name).forward
        given = [(a, a.choices[-1] if a.type == "string" else values[a.type]) for a in signature.attributes]
        presets = [(a, a.default) for a in signature.attributes]
        for values_of_node, values_of_operator in ((given, given), ([], presets)):
            questions.append((f"ms_ascend_ops::1::{name}", [attribute(*one) for one in values_of_node]))
            expected.append("|".join([signature.cann_type, *sorted(said(*one) for one in values_of_operator)]))
    assert plugin(*questions) == expected


def test_what_it_does_not_know(plugin):
    wrong = [{"f": "0.5", "name": "transpose_x", "type": 1}]
    other = [{"i": 3, "name": "axis", "type": 2}]
    word = [{"name": "activation", "s": "tanh", "type": 3}]
    (known,) = plugin(("ms_ascend_ops::1::matmul", []))
    assert plugin(
        ("ai.onnx::1::matmul", []),
        ("ms_ascend_ops::2::matmul", []),
        ("ms_ascend_ops::1::matmul", wrong),
        ("ms_ascend_ops::1::matmul", word),
        ("ms_ascend_ops::1::matmul", other),
    ) == ["unknown", "unknown", "failed", "failed", known]


def test_words_and_numbers_of_any_form(plugin):
    given = [{"f": "1e-05", "name": "epsilon", "type": 1}, {"name": "scheme", "s": "one_plus_gamma", "type": 3}]
    (answer,) = plugin(("ms_ascend_ops::1::rms_norm", given))
    assert answer == "MsAscendOpsRmsNorm|epsilon=float 0.000010|scheme=int 1"


def test_words_of_earlier_releases(plugin):
    old = [{"name": "scheme", "s": "gemma", "type": 3}]
    assert plugin(("ms_ascend_ops::1::rms_norm", old)) == ["MsAscendOpsRmsNorm|epsilon=float 0.000001|scheme=int 1"]
