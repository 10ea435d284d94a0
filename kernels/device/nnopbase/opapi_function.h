/*!
 * Holds what the generated aclnn functions of this library share: the calls of nnopbase in the order in which CANN's
 * op_build writes them.
 */
#ifndef MS_ASCEND_OPS_DEVICE_NNOPBASE_OPAPI_FUNCTION_H
#define MS_ASCEND_OPS_DEVICE_NNOPBASE_OPAPI_FUNCTION_H

#include <cstddef>
#include <cstdint>
#include <initializer_list>

struct aclTensor;
struct aclTensorList;
struct aclOpExecutor;
using aclnnStatus = int32_t;
using aclrtStream = void*;

namespace ms_ascend_ops {
namespace opapi {

struct Parameter {
    const char* name;
    bool required;
    int32_t reference;  // of an output that is an input, too: the number of that input; else -1
};

// Reads an attribute by the type that it has in the registration.
struct Attribute {
    enum Type : int32_t { BOOL, FLOAT, INT };

    Attribute(bool value) : type(BOOL), flag(value) {}
    Attribute(double value) : type(FLOAT), real(static_cast<float>(value)) {}
    Attribute(int64_t value) : type(INT), integer(value) {}

    Type type;
    union {
        bool flag;
        float real;
        int64_t integer;
    };
};

struct Operator {
    const char* type;
    const Parameter* inputs;
    size_t inputCount;
    const Parameter* outputs;
    size_t outputCount;
    const char* const* chips;
    size_t chipCount;
    const int32_t* types;  // of inputs and outputs, row by row
    size_t rowCount;

    // `tensors`: the inputs, then the outputs, those that are inputs, too, once more.
    aclnnStatus Prepare(std::initializer_list<const aclTensor*> tensors, std::initializer_list<Attribute> attributes,
                        uint64_t* workspaceSize, aclOpExecutor** executor) const;
};

aclnnStatus Launch(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);

}  // namespace opapi
}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_DEVICE_NNOPBASE_OPAPI_FUNCTION_H
