/*!
 * Ascend C calls of the host layer, for Python tests: calls/program.h.
 *
 * run() plays one program per core in one of four variants: as kernels run (deferred), with everything recorded carried
 * out after every call (serial), with the recorded instructions run after some calls while views stay (flushed), or as
 * a launch that came before (replayed).
 */
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "calls/launches.h"
#include "host/jit/loop_code.h"
#include "host/passes/lookups.h"
#include "host/runtime/non_temporal.h"
#include "simd/vector_unit.h"

namespace py = pybind11;
using namespace host_calls;

PYBIND11_MODULE(host_calls, module)
{
    module.def("cores", &Cores);
    py::class_<Program>(module, "Program")
        .def(py::init<>())
        .def("set_mask", &Program::SetMask)
        .def("clear_mask", &Program::ClearMask)
        .def("binary", &Program::Binary)
        .def("binary_repeat", &Program::BinaryRepeat)
        .def("scalar", &Program::Scalar)
        .def("scalar_repeat", &Program::ScalarRepeat)
        .def("axpy", &Program::AxpyCount)
        .def("unary", &Program::Unary)
        .def("unary_repeat", &Program::UnaryRepeat)
        .def("cast", &Program::CastCount)
        .def("cast_numbers", &Program::CastNumbers)
        .def("cast_repeat", &Program::CastRepeat)
        .def("reduce_sum", &Program::ReduceSum)
        .def("reduce_max", &Program::ReduceMax)
        .def("bitwise", &Program::Bitwise)
        .def("trap", &Program::Trap)
        .def("wrong", &Program::Wrong)
        .def("fill", &Program::Fill)
        .def("broadcast", &Program::Broadcast)
        .def("pattern", &Program::Pattern)
        .def("gather", &Program::GatherOffsets)
        .def("transpose", &Program::Transpose)
        .def("copy_in", &Program::CopyIn)
        .def("copy_out", &Program::CopyOut)
        .def("copy_in_blocks", &Program::CopyInBlocks)
        .def("copy_out_blocks", &Program::CopyOutBlocks)
        .def("copy_in_pad", &Program::CopyInPad)
        .def("copy_out_pad", &Program::CopyOutPad)
        .def("atomic", &Program::Atomic)
        .def("get", &Program::Get)
        .def("set", &Program::Set)
        .def("gm_get", &Program::GmGet)
        .def("gm_set", &Program::GmSet)
        .def("free", &Program::Free)
        .def("sync", &Program::Sync)
        .def("block_idx", &Program::BlockIdx)
        .def("queues", &Program::Queues)
        .def("product", &Program::Product)
        .def_readonly_static("NONE", &Program::NONE);
    module.def("run", &Run, py::arg("programs"), py::arg("gm").noconvert(), py::arg("ub").noconvert(),
               py::arg("execution") = "deferred", py::arg("output_bytes") = 0);
    module.def("next_loop", [](bool wait) {
        py::object loop = py::none();
        const auto visit = [](void* context, uint32_t number, const char* name, const char* text) {
            *static_cast<py::object*>(context) = py::make_tuple(number, name, text);
        };
        host::NextLoop(wait, visit, &loop);
        return loop;
    });
    module.def("set_loop", [](uint32_t number, uintptr_t address) {
        host::SetLoop(number, reinterpret_cast<host::LoopFunction>(address));
    });
    module.def("set_loop_threshold", &host::SetLoopThreshold);
    module.def("set_non_temporal_bytes", &host::SetNonTemporalBytes);
    module.def("bypasses_caches", &host::BypassesCaches);
    module.def("set_lookups", [](uint64_t bytes, bool byElement) {
        host::SetLookups(bytes, byElement ? host::LookupMethod::BY_ELEMENT : host::LookupMethod::GATHERED);
    });
#if defined(__x86_64__)
    module.def("flush_subnormals", [](bool flush) {  // of this thread
        constexpr unsigned int FLUSH = 0x8040;       // of results and of operands
        __builtin_ia32_ldmxcsr(flush ? __builtin_ia32_stmxcsr() | FLUSH : __builtin_ia32_stmxcsr() & ~FLUSH);
    });
#endif
    module.def("thread_num", [] { return host::TheExecutor().ThreadNum(); });
    module.def("set_thread_num", [](uint32_t count) { host::TheExecutor().SetThreadNum(count); });
    module.def("core_num", [] { return host::TheExecutor().Platform().coreNum; });
    module.attr("UB_BYTES") = host::UB_BYTES;
    module.attr("VECTOR_UNIT") = host::g_vectorUnit->name;
}
