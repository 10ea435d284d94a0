// Compares torch_abi.h with PyTorch's own headers, where the compiler finds those.
#include "binding/torch_abi.h"

#if __has_include(<torch/csrc/stable/c/shim.h>)
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/c/shim.h>

namespace {

using ms_ascend_ops::torch_abi::Functions;
using ms_ascend_ops::torch_abi::Handle;
using ms_ascend_ops::torch_abi::ThreadFunctions;

// Gives our type for one of theirs.
template <typename T>
struct Ours {
    using Type = T;
};
template <>
struct Ours<AtenTensorHandle> {
    using Type = Handle;
};
template <>
struct Ours<AtenTensorHandle*> {
    using Type = Handle*;
};
template <typename RESULT, typename... ARGUMENTS>
struct Ours<RESULT (*)(ARGUMENTS...)> {
    using Type = RESULT (*)(typename Ours<ARGUMENTS>::Type...);
};

#define SAME(NAME) static_assert(std::is_same_v<Ours<decltype(&::NAME)>::Type, decltype(Functions::NAME)>, #NAME)
SAME(torch_tensor_from_pyobject);
SAME(torch_tensor_to_pyobject);
SAME(torch_get_num_threads);
SAME(aoti_torch_delete_tensor_object);
SAME(aoti_torch_get_data_ptr);
SAME(aoti_torch_get_dim);
SAME(aoti_torch_get_sizes);
SAME(aoti_torch_get_strides);
SAME(aoti_torch_get_dtype);
SAME(aoti_torch_get_device_type);
SAME(aoti_torch_get_device_index);
SAME(aoti_torch_get_layout);
SAME(aoti_torch_is_contiguous);
SAME(aoti_torch_empty_strided);
SAME(aoti_torch_grad_mode_is_enabled);
SAME(aoti_torch_device_type_cpu);
SAME(aoti_torch_layout_strided);
SAME(aoti_torch_dtype_float16);
SAME(aoti_torch_dtype_bfloat16);
SAME(aoti_torch_dtype_float32);
SAME(aoti_torch_dtype_int32);
SAME(aoti_torch_dtype_int64);
SAME(aoti_torch_dtype_int8);
static_assert(std::is_same_v<decltype(&::torch_parallel_for), decltype(ThreadFunctions::torch_parallel_for)>);

}  // namespace

#endif
