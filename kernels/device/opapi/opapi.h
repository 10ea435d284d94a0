/*!
 * The generated functions of libopapi.so stand on this: an argument of each type of C as libnnopbase takes it.
 */
#ifndef MS_ASCEND_OPS_DEVICE_OPAPI_OPAPI_H
#define MS_ASCEND_OPS_DEVICE_OPAPI_OPAPI_H

#include <cstdint>
#include <type_traits>

#include "nnopbase/builtin_api.h"

#define ACLNN_API extern "C" __attribute__((visibility("default")))

struct aclTensor;
struct aclTensorList;
struct aclScalar;
struct aclScalarList;
struct aclIntArray;
struct aclBoolArray;
struct aclFloatArray;

namespace {

template <typename T>
struct ObjectKind;
template <>
struct ObjectKind<aclTensor> : std::integral_constant<MsAscendArgumentKind, MS_ASCEND_TENSOR> {};
template <>
struct ObjectKind<aclTensorList> : std::integral_constant<MsAscendArgumentKind, MS_ASCEND_TENSORS> {};
template <>
struct ObjectKind<aclScalar> : std::integral_constant<MsAscendArgumentKind, MS_ASCEND_SCALAR> {};
template <>
struct ObjectKind<aclScalarList> : std::integral_constant<MsAscendArgumentKind, MS_ASCEND_SCALARS> {};
template <>
struct ObjectKind<aclIntArray> : std::integral_constant<MsAscendArgumentKind, MS_ASCEND_INTS> {};
template <>
struct ObjectKind<aclBoolArray> : std::integral_constant<MsAscendArgumentKind, MS_ASCEND_BOOLS> {};
template <>
struct ObjectKind<aclFloatArray> : std::integral_constant<MsAscendArgumentKind, MS_ASCEND_FLOATS> {};
template <>
struct ObjectKind<char> : std::integral_constant<MsAscendArgumentKind, MS_ASCEND_TEXT> {};

template <typename T>
MsAscendArgument Argument(const T* object, const char* name, bool optional, bool dynamic)
{
    MsAscendArgument argument{ObjectKind<T>::value, optional, dynamic, name, {}};
    argument.object = object;
    return argument;
}

template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
MsAscendArgument Argument(T number, const char* name, bool optional, bool dynamic)
{
    MsAscendArgument argument{std::is_integral_v<T> ? MS_ASCEND_INT : MS_ASCEND_REAL, optional, dynamic, name, {}};
    if constexpr (std::is_integral_v<T>) {
        argument.integer = static_cast<int64_t>(number);
    } else {
        argument.real = static_cast<double>(number);
    }
    return argument;
}

template <size_t N>
int Prepare(const char* function, const MsAscendArgument (&arguments)[N], uint64_t* workspaceBytes,
            aclOpExecutor** executor)
{
    return MsAscendBuiltinPrepare(function, arguments, N, workspaceBytes, executor);
}

}  // namespace

ACLNN_API int aclnnInit(const char*)
{
    return 0;
}
ACLNN_API int aclnnFinalize()
{
    return 0;
}

#endif  // MS_ASCEND_OPS_DEVICE_OPAPI_OPAPI_H
