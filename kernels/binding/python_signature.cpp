#include <pybind11/stl.h>

#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "binding/python_call.h"
#include "binding/signature.h"
#include "interface/launch_config.h"

namespace ms_ascend_ops::binding {
namespace {

using Attributes = ShapeMatcher::Attributes;
template <typename T>
using Optionals = std::vector<std::optional<T>>;  // None: an optional input that is absent

template <typename T>
T Get(py::handle object, const char* name)
{
    return object.attr(name).cast<T>();
}

std::vector<TensorDef> ReadTensors(const py::object& tensors)
{
    std::vector<TensorDef> defs;
    for (const py::handle tensor : tensors) {
        std::vector<Token> tokens;
        for (const py::handle token : tensor.attr("rule").attr("tokens")) {
            tokens.push_back(
                {Get<std::string>(token, "symbol"), Get<int64_t>(token, "factor"), Get<bool>(token, "star"),
                 Get<bool>(token, "broadcasts"), Get<std::string>(token, "attribute"), Get<bool>(token, "ones"),
                 Get<std::vector<std::string>>(token, "sizes"), Get<std::vector<std::string>>(token, "window")});
        }
        defs.push_back({Get<std::string>(tensor, "name"), Get<std::string>(tensor, "dtype"), std::move(tokens),
                        Get<bool>(tensor, "optional")});
    }
    return defs;
}

// Reads a registry.Signature. Its attributes come with each call.
Signature ReadSignature(const py::object& signature)
{
    SignatureDef def;
    def.name = Get<std::string>(signature, "name");
    def.inputs = ReadTensors(signature.attr("inputs"));
    def.outputs = ReadTensors(signature.attr("outputs"));
    def.types = Get<decltype(def.types)>(signature, "types");
    def.reasons = Get<decltype(def.reasons)>(signature, "reasons");
    def.positive = Get<decltype(def.positive)>(signature, "positive");
    def.multiples = Get<decltype(def.multiples)>(signature, "multiples");
    return Signature(std::move(def));
}

template <typename T>
std::vector<T> Filled(const Signature& signature, const Optionals<T>& given, const T& absent, bool all)
{
    const size_t count = signature.Def().inputs.size();
    if (all ? given.size() != count : given.size() > count) {
        throw py::value_error(signature.Def().name + ": has " + std::to_string(count) + " inputs, got " +
                              std::to_string(given.size()));
    }
    std::vector<T> filled;
    for (const std::optional<T>& one : given) {
        filled.push_back(one.value_or(absent));
    }
    return filled;
}

py::list Tuples(const std::vector<Shape>& shapes)
{
    py::list tuples;
    for (const Shape& shape : shapes) {
        const bool absent = shape.size() == 1 && shape[0] == ABSENT;
        tuples.append(absent ? py::object(py::none()) : py::tuple(py::cast(shape)));
    }
    return tuples;
}

}  // namespace

void BindSignature(py::module_& module)
{
    py::register_exception_translator([](std::exception_ptr pointer) {
        try {
            std::rethrow_exception(std::move(pointer));
        } catch (const TypeError& error) {
            PyErr_SetString(PyExc_TypeError, error.what());
        }
    });
    module.attr("MAX_RANK") = py::int_(MAX_RANK);
    py::class_<Signature>(
        module, "Signature",
        "The rules of a definition: see ms_ascend_ops/definitions/inference.py. -1: unknown dim; (-2,): unknown "
        "rank; None: absent.")
        .def(py::init(&ReadSignature), py::arg("signature"))
        .def(
            "infer_shapes",
            [](const Signature& signature, const Optionals<Shape>& shapes, const Attributes& attributes) {
                return Tuples(signature.InferShapes(Filled(signature, shapes, {ABSENT}, true), attributes));
            },
            py::arg("shapes"), py::arg("attributes"))
        .def(
            "complete_shapes",
            [](const Signature& signature, const Optionals<Shape>& shapes, const Attributes& attributes) {
                return Tuples(signature.CompleteShapes(Filled(signature, shapes, {ABSENT}, false), attributes));
            },
            py::arg("shapes"), py::arg("attributes"))
        .def(
            "infer_types",
            [](const Signature& signature, const Optionals<std::string>& dtypes) {
                return signature.InferTypes(Filled(signature, dtypes, {}, true));
            },
            py::arg("dtypes"));
}

}  // namespace ms_ascend_ops::binding
