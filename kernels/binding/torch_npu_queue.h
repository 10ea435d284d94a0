/*!
 * Calls aclnn functions in torch_npu's thread, from torch_npu's queue. Nothing here belongs to Python.
 */
#ifndef MS_ASCEND_OPS_BINDING_TORCH_NPU_QUEUE_H
#define MS_ASCEND_OPS_BINDING_TORCH_NPU_QUEUE_H

#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "binding/torch_abi.h"

namespace ms_ascend_ops::binding {

constexpr int WORKSPACE_GREW = -1;  // a status of ours, in the place of one of CANN's

// Declares, without torch_npu's headers, what its guide to custom operators uses of its C++, found in the library
// that the process has loaded (torch_npu/csrc/core/npu/NPUStream.h, torch_npu/csrc/framework/OpCommand.h).
struct Queue {
    // This stands for NPUStream, a device (its kind, then its number) and an id. As that has a destructor of its own,
    // so has this, because it decides how a result is returned: into memory of the caller, which has room for more
    // fields than there are today.
    struct Stream {
        ~Stream() {}
        std::array<int8_t, 2> device;
        int64_t id;
        std::array<int64_t, 6> room;
    };

    Stream (*current)(int8_t device);
    void* (*handle)(const Stream* stream, bool waits);
    void (*put)(const std::string& name, const std::function<int()>& function, bool waits);
    int64_t (*layoutOf)(torch_abi::Handle tensor);  // a reference to a Tensor is its address, as a handle is

    // Returns null where this release of torch_npu has other functions.
    static std::shared_ptr<Queue> Find(const char* library)
    {
        void* const loaded = torch_abi::Loaded(library);
        auto found = std::make_shared<Queue>();
        const bool all = loaded != nullptr &&
                         torch_abi::Find(loaded, found->current, "_ZN7c10_npu19getCurrentNPUStreamEa") &&
                         torch_abi::Find(loaded, found->handle, "_ZNK7c10_npu9NPUStream6streamEb") &&
                         torch_abi::Find(loaded, found->layoutOf, "_ZN6at_npu6native14get_npu_formatERKN2at6TensorE") &&
                         torch_abi::Find(loaded, found->put,
                                         "_ZN6at_npu6native9OpCommand10RunOpApiV2ERKNSt7__cxx1112basic_stringIcSt11char"
                                         "_traitsIcESaIcEEERKSt8functionIFivEEb");
        return all ? found : nullptr;
    }
};

// Holds functions of CANN and of the package by their addresses.
struct AclnnFunctions {
    void* (*createTensor)(const int64_t*, uint64_t, int32_t, const int64_t*, int64_t, int32_t, const int64_t*, uint64_t,
                          void*);
    int32_t (*destroyTensor)(const void*);
    // This generated function of the kernel library calls the one behind it (codegen/host.py).
    int (*prepare)(void*, std::vector<void*>, std::vector<void*>, uint64_t*, void**);
    void* getWorkspaceSize;
    int (*launch)(void*, uint64_t, void*, void*);
};

struct Description {
    int32_t dtype;
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;
    int64_t reach;  // the tensor reaches so far in the memory, in elements
};

// Holds all of a call for tensors of given forms but their addresses.
struct QueuedLaunch {
    std::string name;
    AclnnFunctions functions;
    std::vector<std::optional<Description>> tensors;  // inputs, then outputs; none where one is absent
    size_t inputs;
    std::vector<int64_t> integers;
    std::vector<double> reals;
    std::vector<std::pair<bool, size_t>> attributes;  // whether it is real, and its index
    uint64_t workspaceBytes;
    int32_t layout;

    int Run(const std::vector<void*>& addresses, void* workspace, void* stream) const
    {
        std::vector<void*> given;
        std::vector<void*> results;
        struct Owner {
            const QueuedLaunch& launch;
            std::vector<void*> made{};
            ~Owner()
            {
                for (const void* tensor : made) {
                    launch.functions.destroyTensor(tensor);
                }
            }
        } owner{*this};
        for (size_t i = 0; i < tensors.size(); ++i) {
            void* made = nullptr;
            if (tensors[i]) {
                const Description& form = *tensors[i];
                made = functions.createTensor(form.sizes.data(), form.sizes.size(), form.dtype, form.strides.data(), 0,
                                              layout, &form.reach, 1, addresses[i]);
                owner.made.push_back(made);
            }
            (i < inputs ? given : results).push_back(made);
        }
        for (const auto& [isReal, place] : attributes) {
            given.push_back(isReal ? static_cast<void*>(const_cast<double*>(&reals[place]))
                                   : static_cast<void*>(const_cast<int64_t*>(&integers[place])));
        }
        uint64_t bytes = 0;
        void* executor = nullptr;
        const int prepared =
            functions.prepare(functions.getWorkspaceSize, std::move(given), std::move(results), &bytes, &executor);
        if (prepared != 0) {
            return prepared;
        }
        if (bytes > workspaceBytes) {
            std::fprintf(stderr, "ms_ascend_ops: %s: CANN asks for a workspace of %llu bytes, at first it was %llu\n",
                         name.c_str(), static_cast<unsigned long long>(bytes),
                         static_cast<unsigned long long>(workspaceBytes));
            return WORKSPACE_GREW;
        }
        return functions.launch(workspace, bytes, executor, stream);
    }
};

}  // namespace ms_ascend_ops::binding

#endif  // MS_ASCEND_OPS_BINDING_TORCH_NPU_QUEUE_H
