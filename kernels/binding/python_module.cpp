/*!
 * ms_ascend_ops._C: the kernel library on NumPy arrays, without MindSpore. What kernel tests, benchmarks and tools use.
 */
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "binding/c_api.h"
#include "binding/python_call.h"
#include "binding/tensor_function.h"

namespace {

using namespace ms_ascend_ops::binding;
using Shape = PyShape;
using Dtypes = std::optional<std::vector<std::optional<std::string>>>;

// A call on NumPy arrays.
class Call : public PythonCall {
public:
    using PythonCall::PythonCall;

    void AddArrays(const py::sequence& arrays, const char* role, size_t dtypeOffset, const Dtypes& dtypes)
    {
        for (size_t i = 0; i < arrays.size(); ++i) {
            const std::string name = Op() + ": " + role + "[" + std::to_string(i) + "]";
            if (!py::isinstance<py::array>(arrays[i])) {
                throw py::type_error(name + " must be a NumPy array, got " +
                                     py::cast<std::string>(py::type::of(arrays[i]).attr("__name__")));
            }
            const auto array = py::reinterpret_borrow<py::array>(arrays[i]);
            const auto itemBytes = static_cast<size_t>(array.itemsize());
            if ((array.flags() & py::array::c_style) == 0 ||
                reinterpret_cast<uintptr_t>(array.data()) % itemBytes != 0) {
                throw py::value_error(name + " must be C-contiguous and aligned");
            }
            const bool isOutput = std::strcmp(role, "outputs") == 0;
            if (isOutput && !array.writeable()) {
                throw py::value_error(name + " must be writeable");
            }
            std::string dtype = py::cast<std::string>(array.dtype().attr("name"));
            if (dtypes && dtypeOffset + i < dtypes->size() && (*dtypes)[dtypeOffset + i]) {
                const std::string& given = *(*dtypes)[dtypeOffset + i];
                // NumPy has no bfloat16: its bits come as uint16.
                if (given != dtype && !(given == "bfloat16" && itemBytes == 2)) {
                    throw py::type_error(name + " of dtype " + dtype + " cannot be taken as " + given);
                }
                dtype = given;
            }
            void* data = isOutput ? py::array(array).mutable_data() : const_cast<void*>(array.data());
            CheckOverlap(name, data, static_cast<size_t>(array.nbytes()), isOutput);
            Add(data, Shape(array.shape(), array.shape() + array.ndim()), dtype);
        }
    }

private:
    struct Range {
        const char* begin;
        const char* end;
    };

    // A kernel may read an input after it wrote an output.
    void CheckOverlap(const std::string& name, const void* data, size_t bytes, bool isOutput)
    {
        const auto* begin = static_cast<const char*>(data);
        const Range range{begin, begin + bytes};
        const bool overlaps = std::any_of(ranges_.begin(), ranges_.end(), [&](const Range& other) {
            return range.begin < other.end && other.begin < range.end;
        });
        if (isOutput && overlaps) {
            throw py::value_error(name + " must not overlap another array of the call");
        }
        ranges_.push_back(range);
    }

    std::vector<Range> ranges_;
};

void AddShapes(Call& call, const std::string& op, const std::vector<Shape>& shapes,
               const std::vector<std::string>& dtypes)
{
    if (shapes.size() != dtypes.size()) {
        throw py::value_error(op + ": as many shapes as dtypes are needed, got " + std::to_string(shapes.size()) +
                              " and " + std::to_string(dtypes.size()));
    }
    for (size_t i = 0; i < shapes.size(); ++i) {
        call.Add(nullptr, shapes[i], dtypes[i]);
    }
}

void Launch(const std::string& op, const py::sequence& inputs, const py::sequence& outputs, const py::dict& attributes,
            const Dtypes& dtypes)
{
    Call call(op, attributes);
    call.AddArrays(inputs, "inputs", 0, dtypes);
    call.AddArrays(outputs, "outputs", inputs.size(), dtypes);
    call.Invoke([](const MsAscendCall* cCall) {
        const py::gil_scoped_release release;
        return MsAscendOpsLaunch(cCall);
    });
}

py::tuple Infer(const std::string& op, const std::vector<Shape>& shapes, const std::vector<std::string>& dtypes,
                const py::dict& attributes)
{
    Call call(op, attributes);
    AddShapes(call, op, shapes, dtypes);
    struct Outputs {
        py::list shapes;
        py::list dtypes;
    } outputs;
    call.Invoke([&](const MsAscendCall* cCall) {
        const auto visit = [](void* context, const char* dtype, const int64_t* shape, int32_t rank) {
            auto* result = static_cast<Outputs*>(context);
            result->shapes.append(py::tuple(py::cast(Shape(shape, shape + rank))));
            result->dtypes.append(py::str(dtype));
        };
        return MsAscendOpsInfer(cCall, visit, &outputs);
    });
    return py::make_tuple(outputs.shapes, outputs.dtypes);
}

py::dict Tiling(const std::string& op, const std::vector<Shape>& shapes, const std::vector<std::string>& dtypes,
                const py::dict& attributes, uint32_t coreNum, uint32_t ubBytes, uint32_t minBytesPerCore)
{
    Call call(op, attributes);
    AddShapes(call, op, shapes, dtypes);
    py::dict fields;
    call.Invoke([&](const MsAscendCall* cCall) {
        const auto visit = [](void* context, const char* name, int32_t isReal, int64_t integer, double real) {
            auto& result = *static_cast<py::dict*>(context);
            result[name] = isReal != 0 ? py::object(py::float_(real)) : py::object(py::int_(integer));
        };
        return MsAscendOpsTiling(cCall, coreNum, ubBytes, minBytesPerCore, visit, &fields);
    });
    return fields;
}

}  // namespace

PYBIND11_MODULE(_C, module)
{
    module.doc() = "The kernel library on NumPy arrays, without MindSpore.";
    module.def("version", &MsAscendOpsVersion, "Version of the loaded library.");
    module.def("library_path", &MsAscendOpsPath, "File the loaded library comes from.");
    module.def("vector_unit", &MsAscendOpsVectorUnit,
               "Which vector unit runs: \"native\", or the level of x86-64 that a portable build chose.");
    module.def(
        "signatures", [] { return py::module_::import("json").attr("loads")(MsAscendOpsSignatures()); },
        "The kernels of the library: a list of dicts with name, entry, inputs, outputs, attributes and types.");
    module.def("get_thread_num", &MsAscendOpsGetThreadNum, "Number of AI cores (worker threads) of a launch.");
    module.def(
        "set_thread_num",
        [](int64_t threads) {
            if (threads < 0 || threads > UINT32_MAX) {
                throw py::value_error("set_thread_num: threads must be >= 0, got " + std::to_string(threads));
            }
            MsAscendOpsSetThreadNum(static_cast<uint32_t>(threads));
        },
        py::arg("threads"), "Set the number of AI cores (worker threads) of a launch; 0 restores the machine's.");
    module.def("get_ub_bytes", &MsAscendOpsGetUbBytes, "How much of a core's Unified Buffer tilings may use.");
    module.def(
        "set_ub_bytes",
        [](int64_t bytes) {
            constexpr int64_t LEAST = 64 * 1024;  // tilings count on more than they use for other things than tiles
            if (bytes != 0 && (bytes < LEAST || bytes > INT32_MAX)) {
                throw py::value_error("set_ub_bytes: bytes must be 0 or at least " + std::to_string(LEAST) + ", got " +
                                      std::to_string(bytes));
            }
            MsAscendOpsSetUbBytes(static_cast<uint32_t>(bytes));
        },
        py::arg("bytes"), "Set how much of a core's Unified Buffer tilings may use, 64 KiB at least; 0: all.");
    module.def(
        "launch", &Launch, py::arg("op"), py::arg("inputs"), py::arg("outputs"), py::arg("attributes") = py::dict(),
        py::arg("dtypes") = py::none(),
        "Run a kernel on NumPy arrays; the results are written into `outputs`.\n\n"
        "Attributes that are not given have their default. `dtypes` may name the dtype of an array (inputs, then\n"
        "outputs; None: the array's own): bfloat16 bits in a uint16 array need it, ml_dtypes.bfloat16 does not.");
    module.def("infer", &Infer, py::arg("op"), py::arg("shapes"), py::arg("dtypes"), py::arg("attributes") = py::dict(),
               "Shapes and dtypes of the outputs, by the rules MindSpore uses in a graph. -1: unknown dim; (-2,): "
               "unknown rank.");
    module.def("tiling", &Tiling, py::arg("op"), py::arg("shapes"), py::arg("dtypes"),
               py::arg("attributes") = py::dict(), py::arg("core_num") = 0, py::arg("ub_bytes") = 0,
               py::arg("min_bytes_per_core") = 0,
               "How a kernel is split for these inputs: the fields of its tiling data, block_dim and workspace_bytes.\n"
               "A core_num is that of a chip; it and ub_bytes are the host's where they are 0.");
    BindTensorFunction(module);
}
