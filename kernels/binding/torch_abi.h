/*!
 * The part of PyTorch's stable C ABI that is used, found in the library that the process has loaded: no header and no
 * library of PyTorch is needed to build, and what is built serves every release that has these functions.
 *
 * Source: torch/csrc/inductor/aoti_torch/c/shim.h and torch/csrc/stable/c/shim.h, which every wheel of PyTorch brings;
 * torch_abi_check.cpp compares with them where a compiler finds them. PyTorch keeps such functions as they are. Between
 * Python's tensors and handles they go from 2.14 on; before that there is none to be used.
 */
#ifndef MS_ASCEND_OPS_BINDING_TORCH_ABI_H
#define MS_ASCEND_OPS_BINDING_TORCH_ABI_H

#include <dlfcn.h>

#include <cstdint>
#include <memory>
#include <type_traits>

namespace ms_ascend_ops::torch_abi {

struct Tensor;  // known by its address only
using Handle = Tensor*;
using Error = int32_t;  // 0: all went well

// Which are there. Names are those of the symbols.
struct Functions {
    Error (*torch_tensor_from_pyobject)(void* object, Handle* made);
    Error (*torch_tensor_to_pyobject)(Handle tensor, void* type, void** object);
    Error (*torch_get_num_threads)(uint32_t* count);
    Error (*aoti_torch_delete_tensor_object)(Handle tensor);
    Error (*aoti_torch_get_data_ptr)(Handle tensor, void** data);
    Error (*aoti_torch_get_dim)(Handle tensor, int64_t* rank);
    Error (*aoti_torch_get_sizes)(Handle tensor, int64_t** sizes);
    Error (*aoti_torch_get_dtype)(Handle tensor, int32_t* dtype);
    Error (*aoti_torch_get_device_type)(Handle tensor, int32_t* type);
    Error (*aoti_torch_get_layout)(Handle tensor, int32_t* layout);
    Error (*aoti_torch_is_contiguous)(Handle tensor, bool* isContiguous);
    Error (*aoti_torch_empty_strided)(int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype,
                                      int32_t deviceType, int32_t deviceIndex, Handle* made);
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

// Finds the functions of the library with this name or path if the process has loaded it and it has all of them; else
// null.
inline std::unique_ptr<Functions> Find(const char* library)
{
    void* handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    if (handle == nullptr) {
        return nullptr;
    }
    auto found = std::make_unique<Functions>();
    bool all = true;
    const auto find = [handle, &all](auto& function, const char* symbol) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, symbol));
        all = all && function != nullptr;
    };
#define MS_ASCEND_OPS_FIND(NAME) find(found->NAME, #NAME)
    MS_ASCEND_OPS_FIND(torch_tensor_from_pyobject);
    MS_ASCEND_OPS_FIND(torch_tensor_to_pyobject);
    MS_ASCEND_OPS_FIND(torch_get_num_threads);
    MS_ASCEND_OPS_FIND(aoti_torch_delete_tensor_object);
    MS_ASCEND_OPS_FIND(aoti_torch_get_data_ptr);
    MS_ASCEND_OPS_FIND(aoti_torch_get_dim);
    MS_ASCEND_OPS_FIND(aoti_torch_get_sizes);
    MS_ASCEND_OPS_FIND(aoti_torch_get_dtype);
    MS_ASCEND_OPS_FIND(aoti_torch_get_device_type);
    MS_ASCEND_OPS_FIND(aoti_torch_get_layout);
    MS_ASCEND_OPS_FIND(aoti_torch_is_contiguous);
    MS_ASCEND_OPS_FIND(aoti_torch_empty_strided);
    MS_ASCEND_OPS_FIND(aoti_torch_grad_mode_is_enabled);
    MS_ASCEND_OPS_FIND(aoti_torch_device_type_cpu);
    MS_ASCEND_OPS_FIND(aoti_torch_layout_strided);
    MS_ASCEND_OPS_FIND(aoti_torch_dtype_float16);
    MS_ASCEND_OPS_FIND(aoti_torch_dtype_bfloat16);
    MS_ASCEND_OPS_FIND(aoti_torch_dtype_float32);
    MS_ASCEND_OPS_FIND(aoti_torch_dtype_int32);
    MS_ASCEND_OPS_FIND(aoti_torch_dtype_int64);
    MS_ASCEND_OPS_FIND(aoti_torch_dtype_int8);
#undef MS_ASCEND_OPS_FIND
    return all ? std::move(found) : nullptr;  // the handle stays: the functions are used until the process ends
}

}  // namespace ms_ascend_ops::torch_abi

#endif  // MS_ASCEND_OPS_BINDING_TORCH_ABI_H
