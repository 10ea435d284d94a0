/*!
 * Runs launches on the threads of PyTorch: a kernel that runs on threads of its own shares the CPUs with those of
 * PyTorch, which spin behind each of its operators until they sleep.
 */
#ifndef MS_ASCEND_OPS_BINDING_TORCH_THREADS_H
#define MS_ASCEND_OPS_BINDING_TORCH_THREADS_H

#include "binding/kernel_library.h"
#include "binding/torch_abi.h"

namespace ms_ascend_ops::binding {

// While it lives, launches of the calling thread have `count` threads. They are PyTorch's, where that has a function
// for it (from 2.10 on) and cores do not wait for each other.
class TorchThreads {
public:
    TorchThreads(const KernelLibrary& library, uint32_t count) : library_(library), isShared_(count > 1 && Abi())
    {
        library_.setThreadNumOfCaller(count);
        if (isShared_) {
            library_.setParallelForOfCaller(Run, nullptr);
        }
    }
    TorchThreads(const TorchThreads&) = delete;
    TorchThreads& operator=(const TorchThreads&) = delete;
    ~TorchThreads()
    {
        library_.setThreadNumOfCaller(0);
        if (isShared_) {
            library_.setParallelForOfCaller(nullptr, nullptr);
        }
    }

private:
    // Null: PyTorch has no such function.
    static const torch_abi::ThreadFunctions* Abi()
    {
        static const auto found = torch_abi::FindIn<torch_abi::ThreadFunctions>("libtorch_cpu.so");
        return found.get();
    }

    static void Run(void* /*context*/, void (*task)(void* data, size_t index), void* data, size_t count)
    {
        struct Tasks {
            void (*task)(void* data, size_t index);
            void* data;
        } tasks{task, data};
        const auto range = [](int64_t begin, int64_t end, void* given) {
            const auto& shared = *static_cast<const Tasks*>(given);
            for (int64_t i = begin; i < end; ++i) {
                shared.task(shared.data, static_cast<size_t>(i));
            }
        };
        const auto end = static_cast<int64_t>(count);
        if (Abi()->torch_parallel_for(0, end, 1, range, &tasks) != 0) {
            range(0, end, &tasks);  // PyTorch refused, and may have run none of them
        }
    }

    const KernelLibrary& library_;
    const bool isShared_;
};

}  // namespace ms_ascend_ops::binding

#endif  // MS_ASCEND_OPS_BINDING_TORCH_THREADS_H
