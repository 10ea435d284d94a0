/*!
 * Declares the objects of CANN's operator interface, which aclCreateTensor and its kin make.
 */
#ifndef MS_ASCEND_OPS_DEVICE_NNOPBASE_META_H
#define MS_ASCEND_OPS_DEVICE_NNOPBASE_META_H

#include <cstdint>
#include <vector>

#include "device/protocol/call.h"

using aclnnStatus = int32_t;

constexpr aclnnStatus ACLNN_SUCCESS = 0;
constexpr aclnnStatus ACLNN_ERR_PARAM_NULLPTR = 161001;
constexpr aclnnStatus ACLNN_ERR_PARAM_INVALID = 161002;
constexpr aclnnStatus ACLNN_ERR_RUNTIME_ERROR = 361001;
constexpr aclnnStatus ACLNN_ERR_INNER_INFERSHAPE_ERROR = 561001;
constexpr aclnnStatus ACLNN_ERR_INNER_TILING_ERROR = 561002;
constexpr aclnnStatus ACLNN_ERR_INNER_FIND_KERNEL_ERROR = 561003;
constexpr aclnnStatus ACLNN_ERR_INNER_NULLPTR = 561103;

struct aclTensor {
    int32_t dtype = 0;
    int32_t format = 2;  // ND
    std::vector<int64_t> shape;
    std::vector<int64_t> strides;  // in elements
    int64_t offset = 0;            // in elements
    std::vector<int64_t> storage;
    void* data = nullptr;  // of the storage

    bool IsContiguous() const;
    bool IsEmpty() const;
    int64_t Elements() const;
    uint64_t Bytes() const;  // of its elements
    void* Begin() const;     // the address of its first element
    ms_ascend_ops::device::TensorView View() const;
};

struct aclScalar {
    int32_t dtype = 0;
    uint8_t value[16] = {};
};
struct aclIntArray {
    std::vector<int64_t> values;
};
struct aclFloatArray {
    std::vector<float> values;
};
struct aclBoolArray {
    std::vector<uint8_t> values;
};
// Owns its tensors: aclDestroyTensorList destroys them.
struct aclTensorList {
    std::vector<aclTensor*> tensors;
};
struct aclScalarList {
    std::vector<aclScalar*> scalars;
};

namespace ms_ascend_ops {
namespace device {

uint64_t BytesOfType(int32_t dtype);    // of an aclDataType; 0: it has none
const char* NameOfType(int32_t dtype);  // "float16"
std::string ToText(const std::vector<int64_t>& shape);

// Sets the text of aclGetRecentErrMsg, and returns the status.
aclnnStatus Refuse(aclnnStatus status, const std::string& text);

}  // namespace device
}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_DEVICE_NNOPBASE_META_H
