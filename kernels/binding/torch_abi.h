/*!
 * Finds the part of PyTorch's stable C ABI that is used in the library that the process has loaded: no header and no
 * library of PyTorch is needed to build, and one build serves every release that has these functions.
 *
 * Source: torch/csrc/inductor/aoti_torch/c/shim.h and torch/csrc/stable/c/shim.h, which every wheel of PyTorch brings;
 * torch_abi_check.cpp compares with them where a compiler finds them. PyTorch keeps such functions as they are. Between
 * Python's tensors and handles they go from 2.14 on; those of tensors alone are in every release from 2.6 on.
 */
#ifndef MS_ASCEND_OPS_BINDING_TORCH_ABI_H
#define MS_ASCEND_OPS_BINDING_TORCH_ABI_H

#include <dlfcn.h>

#include <cstdint>
#include <memory>
#include <utility>

namespace ms_ascend_ops::torch_abi {

struct Tensor;  // known by its address only
using Handle = Tensor*;
using Error = int32_t;  // 0: all went well

// These functions ask a tensor. Their names are those of the symbols.
struct TensorFunctions {
    Error (*aoti_torch_delete_tensor_object)(Handle tensor);
    Error (*aoti_torch_get_data_ptr)(Handle tensor, void** data);
    Error (*aoti_torch_get_dim)(Handle tensor, int64_t* rank);
    Error (*aoti_torch_get_sizes)(Handle tensor, int64_t** sizes);
    Error (*aoti_torch_get_strides)(Handle tensor, int64_t** strides);
    Error (*aoti_torch_get_dtype)(Handle tensor, int32_t* dtype);
    Error (*aoti_torch_get_device_type)(Handle tensor, int32_t* type);
    Error (*aoti_torch_get_device_index)(Handle tensor, int32_t* index);
    Error (*aoti_torch_empty_strided)(int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype,
                                      int32_t deviceType, int32_t deviceIndex, Handle* made);
};

// This one runs tasks on its threads.
struct ThreadFunctions {
    Error (*torch_parallel_for)(int64_t begin, int64_t end, int64_t grain,
                                void (*task)(int64_t begin, int64_t end, void* data), void* data);
};

// Calls of kernels use all of these.
struct Functions : TensorFunctions {
    Error (*torch_tensor_from_pyobject)(void* object, Handle* made);
    Error (*torch_tensor_to_pyobject)(Handle tensor, void* type, void** object);
    Error (*torch_get_num_threads)(uint32_t* count);
    Error (*aoti_torch_get_layout)(Handle tensor, int32_t* layout);
    Error (*aoti_torch_is_contiguous)(Handle tensor, bool* isContiguous);
    bool (*aoti_torch_grad_mode_is_enabled)();
    int32_t (*aoti_torch_device_type_cpu)();
    int32_t (*aoti_torch_layout_strided)();
    int32_t (*aoti_torch_dtype_float16)();
    int32_t (*aoti_torch_dtype_bfloat16)();
    int32_t (*aoti_torch_dtype_float32)();
    int32_t (*aoti_torch_dtype_int32)();
    int32_t (*aoti_torch_dtype_int64)();
    int32_t (*aoti_torch_dtype_int8)();
};

// Returns the library with this name or path if the process has loaded it, else null. It stays: its functions are used
// until the process ends.
inline void* Loaded(const char* library)
{
    return dlopen(library, RTLD_NOW | RTLD_NOLOAD);
}

// Tells whether the library has the function.
template <typename FUNCTION>
bool Find(void* library, FUNCTION*& function, const char* symbol)
{
    function = reinterpret_cast<FUNCTION*>(dlsym(library, symbol));
    return function != nullptr;
}

#define MS_ASCEND_OPS_FIND(NAME) Find(library, found.NAME, #NAME)

inline bool FindAll(void* library, TensorFunctions& found)
{
    return MS_ASCEND_OPS_FIND(aoti_torch_delete_tensor_object) && MS_ASCEND_OPS_FIND(aoti_torch_get_data_ptr) &&
           MS_ASCEND_OPS_FIND(aoti_torch_get_dim) && MS_ASCEND_OPS_FIND(aoti_torch_get_sizes) &&
           MS_ASCEND_OPS_FIND(aoti_torch_get_strides) && MS_ASCEND_OPS_FIND(aoti_torch_get_dtype) &&
           MS_ASCEND_OPS_FIND(aoti_torch_get_device_type) && MS_ASCEND_OPS_FIND(aoti_torch_get_device_index) &&
           MS_ASCEND_OPS_FIND(aoti_torch_empty_strided);
}

inline bool FindAll(void* library, ThreadFunctions& found)
{
    return MS_ASCEND_OPS_FIND(torch_parallel_for);
}

inline bool FindAll(void* library, Functions& found)
{
    return FindAll(library, static_cast<TensorFunctions&>(found)) && MS_ASCEND_OPS_FIND(torch_tensor_from_pyobject) &&
           MS_ASCEND_OPS_FIND(torch_tensor_to_pyobject) && MS_ASCEND_OPS_FIND(torch_get_num_threads) &&
           MS_ASCEND_OPS_FIND(aoti_torch_get_layout) && MS_ASCEND_OPS_FIND(aoti_torch_is_contiguous) &&
           MS_ASCEND_OPS_FIND(aoti_torch_grad_mode_is_enabled) && MS_ASCEND_OPS_FIND(aoti_torch_device_type_cpu) &&
           MS_ASCEND_OPS_FIND(aoti_torch_layout_strided) && MS_ASCEND_OPS_FIND(aoti_torch_dtype_float16) &&
           MS_ASCEND_OPS_FIND(aoti_torch_dtype_bfloat16) && MS_ASCEND_OPS_FIND(aoti_torch_dtype_float32) &&
           MS_ASCEND_OPS_FIND(aoti_torch_dtype_int32) && MS_ASCEND_OPS_FIND(aoti_torch_dtype_int64) &&
           MS_ASCEND_OPS_FIND(aoti_torch_dtype_int8);
}

#undef MS_ASCEND_OPS_FIND

// Returns the functions of a library that the process has loaded, or null where it has not all of them.
template <typename FUNCTIONS>
std::unique_ptr<FUNCTIONS> FindIn(const char* library)
{
    void* const loaded = Loaded(library);
    auto found = std::make_unique<FUNCTIONS>();
    return loaded != nullptr && FindAll(loaded, *found) ? std::move(found) : nullptr;
}

// Owns a handle, and gives it back.
class TensorHandle {
public:
    explicit TensorHandle(const TensorFunctions& functions, Handle handle = nullptr)
        : functions_(&functions), handle_(handle)
    {}
    TensorHandle(TensorHandle&& other) noexcept : functions_(other.functions_), handle_(other.Release()) {}
    TensorHandle(const TensorHandle&) = delete;
    TensorHandle& operator=(const TensorHandle&) = delete;
    ~TensorHandle()
    {
        if (handle_ != nullptr) {
            functions_->aoti_torch_delete_tensor_object(handle_);
        }
    }

    Handle Get() const { return handle_; }
    Handle* Address() { return &handle_; }
    Handle Release() { return std::exchange(handle_, nullptr); }

private:
    const TensorFunctions* functions_;
    Handle handle_;
};

}  // namespace ms_ascend_ops::torch_abi

#endif  // MS_ASCEND_OPS_BINDING_TORCH_ABI_H
