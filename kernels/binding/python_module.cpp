/*!
 * This is ms_ascend_ops._C, the kernel library on NumPy arrays, without MindSpore. Kernel tests, benchmarks and tools
 * use it.
 */
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <vector>

#include "binding/c_api.h"
#include "binding/python_call.h"

namespace {

using namespace ms_ascend_ops::binding;
using Shape = PyShape;

// None: an optional input that is absent.
using Shapes = std::vector<std::optional<Shape>>;
using Dtypes = std::vector<std::optional<std::string>>;

void AddShapes(PythonCall& call, const std::string& op, const Shapes& shapes, const Dtypes& dtypes)
{
    if (shapes.size() != dtypes.size()) {
        throw py::value_error(op + ": as many shapes as dtypes are needed, got " + std::to_string(shapes.size()) +
                              " and " + std::to_string(dtypes.size()));
    }
    for (size_t i = 0; i < shapes.size(); ++i) {
        if (shapes[i] && dtypes[i]) {
            call.Add(*shapes[i], *dtypes[i]);
        } else {
            call.AddAbsent();
        }
    }
}

py::dict Tiling(const std::string& op, const Shapes& shapes, const Dtypes& dtypes, const py::dict& attributes,
                uint32_t coreNum, uint32_t ubBytes, uint32_t minBytesPerCore)
{
    PythonCall call(op, attributes);
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

std::string AnsweringLibrary(const std::string& op, const Shapes& shapes, const Dtypes& dtypes,
                             const py::dict& attributes)
{
    PythonCall call(op, attributes);
    AddShapes(call, op, shapes, dtypes);
    std::string found;
    call.Invoke([&](const MsAscendCall* cCall) {
        const auto visit = [](void* context, const char* name) { *static_cast<std::string*>(context) = name; };
        return MsAscendOpsLibrary(cCall, visit, &found);
    });
    return found;
}

}  // namespace

PYBIND11_MODULE(_C, module)
{
    module.doc() = "The kernel library on NumPy arrays, without MindSpore.";
    module.def("version", &MsAscendOpsVersion, "Version of the loaded library.");
    module.def("library_path", &MsAscendOpsPath, "File the loaded library comes from.");
    module.def(
        "product_library", [] { return py::make_tuple(MsAscendOpsProductLibrary(), MsAscendOpsProductLibraryPath()); },
        "What multiplies matrices, and where it is, or why it is no library.");
    module.def("vector_unit", &MsAscendOpsVectorUnit,
               "Which vector unit runs: \"native\", or the level that a portable build chose.");
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
    module.def("answering_library", &AnsweringLibrary, py::arg("op"), py::arg("shapes"), py::arg("dtypes"),
               py::arg("attributes") = py::dict(),
               "The library of this host that answers in the place of a kernel for these inputs; empty: none does.");
    module.def("tiling", &Tiling, py::arg("op"), py::arg("shapes"), py::arg("dtypes"),
               py::arg("attributes") = py::dict(), py::arg("core_num") = 0, py::arg("ub_bytes") = 0,
               py::arg("min_bytes_per_core") = 0,
               "How a kernel is split for these inputs: the fields of its tiling data, block_dim and workspace_bytes.\n"
               "A core_num is that of a chip; it and ub_bytes are the host's where they are 0.");
    module.def(
        "set_counting", [](bool on) { MsAscendOpsSetCounting(on ? 1 : 0); }, py::arg("on"),
        "Count launches from now on, or no more.");
    module.def(
        "count_bounds", [] { return CountBounds(KernelLibrary{}); },
        "The upper bounds of the histogram of launches, in nanoseconds.");
    module.def(
        "counts", [] { return Counts(KernelLibrary{}); },
        "Launches that were counted: kernel, shape bucket, how many up to each bound and beyond, nanoseconds, bytes, "
        "failures.");
    module.def(
        "next_loop", [](bool wait) { return NextLoop(KernelLibrary{}, wait); }, py::arg("wait"),
        "Number, function name and LLVM IR of the next loop that is worth compiling; None: there is none, or "
        "loops were stopped. See ms_ascend_ops/loop_compiler.py.");
    module.def(
        "set_loop",
        [](uint32_t number, uintptr_t address) { MsAscendOpsSetLoop(number, reinterpret_cast<void*>(address)); },
        py::arg("number"), py::arg("address"), "Say where the compiled function of a loop is.");
    module.def("pending_loops", &MsAscendOpsPendingLoops, "How many loops were requested and are not compiled yet.");
    module.def("stop_loops", &MsAscendOpsStopLoops, "Ask for no more loops, and end the wait of next_loop.");
    module.def("set_loop_threshold", &MsAscendOpsSetLoopThreshold, py::arg("strips"),
               "Set how much must have been done before a loop is requested, in strips of an instruction.");
    BindArrayLaunch(module);
    BindKernelLibrary(module);
    BindSignature(module);
    BindTensorFunction(module);
    BindTorchCall(module);
    BindTorchNpuCall(module);
}
