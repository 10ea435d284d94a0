/*!
 * Opens other versions of the kernel library by path (`_C.KernelLibrary`). Their symbols stay apart from ours: both are
 * loaded with local scope, and the linker compares paths.
 */
#include "binding/kernel_library.h"

#include <dlfcn.h>

#include <memory>
#include <string>
#include <vector>

#include "binding/python_call.h"

namespace ms_ascend_ops::binding {
namespace {

template <typename F>
void Find(void* handle, const std::string& path, const char* symbol, F& function)
{
    function = reinterpret_cast<F>(dlsym(handle, symbol));
    if (function == nullptr) {
        throw std::runtime_error(path + ": it has no " + symbol + ": it is no kernel library of this kind");
    }
}

// Stays open for the life of the process: its threads and loops may run at any time.
std::shared_ptr<KernelLibrary> Open(const std::string& path)
{
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        throw std::runtime_error(dlerror());
    }
    auto library = std::make_shared<KernelLibrary>();
    Find(handle, path, "MsAscendOpsVersion", library->version);
    Find(handle, path, "MsAscendOpsPath", library->path);
    Find(handle, path, "MsAscendOpsSignatures", library->signatures);
    Find(handle, path, "MsAscendOpsSetThreadNum", library->setThreadNum);
    Find(handle, path, "MsAscendOpsSetThreadNumOfCaller", library->setThreadNumOfCaller);
    Find(handle, path, "MsAscendOpsSetParallelForOfCaller", library->setParallelForOfCaller);
    Find(handle, path, "MsAscendOpsNextLoop", library->nextLoop);
    Find(handle, path, "MsAscendOpsSetLoop", library->setLoop);
    Find(handle, path, "MsAscendOpsPendingLoops", library->pendingLoops);
    Find(handle, path, "MsAscendOpsStopLoops", library->stopLoops);
    Find(handle, path, "MsAscendOpsSetCounting", library->setCounting);
    Find(handle, path, "MsAscendOpsCountBounds", library->countBounds);
    Find(handle, path, "MsAscendOpsVisitCounts", library->visitCounts);
    Find(handle, path, "MsAscendOpsPrepare", library->prepare);
    Find(handle, path, "MsAscendOpsRun", library->run);
    Find(handle, path, "MsAscendOpsFreePrepared", library->freePrepared);
    return library;
}

}  // namespace

py::object NextLoop(const KernelLibrary& library, bool wait)
{
    struct Source {
        uint32_t number;
        std::string name, text;
    } source;
    const auto visit = [](void* context, uint32_t number, const char* name, const char* text) {
        *static_cast<Source*>(context) = {number, name, text};
    };
    bool found = false;
    {
        const py::gil_scoped_release release;
        found = library.nextLoop(wait ? 1 : 0, visit, &source) != 0;
    }
    return found ? py::make_tuple(source.number, source.name, source.text) : py::object(py::none());
}

std::vector<uint64_t> CountBounds(const KernelLibrary& library)
{
    const uint64_t* bounds = nullptr;
    const int32_t count = library.countBounds(&bounds);
    return {bounds, bounds + count};
}

py::list Counts(const KernelLibrary& library)
{
    struct Context {
        size_t bounds;
        py::list found;
    } context{CountBounds(library).size(), py::list()};
    const auto visit = [](void* into, const char* op, const char* bucket, const uint64_t* calls, uint64_t nanoseconds,
                          uint64_t bytes, uint64_t failures) {
        auto& [bounds, found] = *static_cast<Context*>(into);
        const std::vector<uint64_t> histogram(calls, calls + bounds + 1);
        found.append(py::make_tuple(op, bucket, histogram, nanoseconds, bytes, failures));
    };
    library.visitCounts(visit, &context);
    return context.found;
}

void BindKernelLibrary(py::module_& module)
{
    py::class_<KernelLibrary, std::shared_ptr<KernelLibrary>>(
        module, "KernelLibrary",
        "Another version of the kernel library, by its path. It has of this module's functions those that a call of "
        "a kernel needs.")
        .def(py::init(&Open), py::arg("path"))
        .def("version", [](const KernelLibrary& library) { return library.version(); })
        .def("library_path", [](const KernelLibrary& library) { return library.path(); })
        .def("signatures",
             [](const KernelLibrary& library) {
                 return py::module_::import("json").attr("loads")(library.signatures());
             })
        .def("set_thread_num", [](const KernelLibrary& library, uint32_t threads) { library.setThreadNum(threads); })
        .def("set_counting", [](const KernelLibrary& library, bool on) { library.setCounting(on ? 1 : 0); })
        .def("count_bounds", &CountBounds)
        .def("counts", &Counts)
        .def("next_loop", &NextLoop, py::arg("wait"))
        .def("set_loop", [](const KernelLibrary& library, uint32_t number,
                            uintptr_t address) { library.setLoop(number, reinterpret_cast<void*>(address)); })
        .def("pending_loops", [](const KernelLibrary& library) { return library.pendingLoops(); })
        .def("stop_loops", [](const KernelLibrary& library) { library.stopLoops(); });
}

}  // namespace ms_ascend_ops::binding
