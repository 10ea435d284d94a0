/*!
 * Declares what libnnopbase offers to libopapi, which holds CANN's own operators: it turns the arguments of an aclnn
 * function into a call (protocol/call.h) that an executor keeps until it is launched.
 */
#ifndef MS_ASCEND_OPS_DEVICE_NNOPBASE_BUILTIN_API_H
#define MS_ASCEND_OPS_DEVICE_NNOPBASE_BUILTIN_API_H

#include <cstddef>
#include <cstdint>

struct aclOpExecutor;

// An argument as the caller of an aclnn function gave it. Objects are those that aclCreateTensor and its kin made; a
// null pointer is an argument that is absent.
enum MsAscendArgumentKind : uint32_t {
    MS_ASCEND_TENSOR,
    MS_ASCEND_TENSORS,
    MS_ASCEND_SCALAR,
    MS_ASCEND_SCALARS,  // sent as REALS
    MS_ASCEND_INTS,
    MS_ASCEND_BOOLS,   // sent as INTS
    MS_ASCEND_FLOATS,  // sent as REALS
    MS_ASCEND_TEXT,    // const char*
    MS_ASCEND_INT,     // also bool and aclDataType
    MS_ASCEND_REAL
};

struct MsAscendArgument {
    MsAscendArgumentKind kind;
    // May be null: otherwise null is an error of the caller that names the argument.
    bool optional;
    // An output whose shape only its values tell: the launch waits for it and changes what aclGetViewShape says.
    bool dynamic;
    const char* name;
    union {
        const void* object;
        int64_t integer;
        double real;
    };
};

extern "C" {

// The executor holds a copy of all but the tensors, whose addresses may change until the launch (aclSetTensorAddr).
int MsAscendBuiltinPrepare(const char* function, const MsAscendArgument* arguments, size_t count,
                           uint64_t* workspaceBytes, aclOpExecutor** executor);

// Puts the call into the stream; an executor that is not repeatable is gone then.
int MsAscendBuiltinLaunch(void* workspace, uint64_t workspaceBytes, aclOpExecutor* executor, void* stream);

}  // extern "C"

#endif  // MS_ASCEND_OPS_DEVICE_NNOPBASE_BUILTIN_API_H
