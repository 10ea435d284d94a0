/*!
 * Declares the part of CANN's header of this name that callers of a package's operators need.
 */
#ifndef MS_ASCEND_OPS_DEVICE_ACL_META_H
#define MS_ASCEND_OPS_DEVICE_ACL_META_H

#include <cstdint>

#include "acl/acl_base.h"

struct aclTensor;
struct aclOpExecutor;
typedef int32_t aclnnStatus;

extern "C" {

aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t* stride,
                           int64_t offset, aclFormat format, const int64_t* storageDims, uint64_t storageDimsNum,
                           void* tensorData);
aclnnStatus aclDestroyTensor(const aclTensor* tensor);

}  // extern "C"

#endif  // MS_ASCEND_OPS_DEVICE_ACL_META_H
