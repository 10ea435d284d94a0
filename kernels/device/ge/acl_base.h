/*!
 * MindSpore's callbacks of custom operators need this of CANN's header of this name.
 */
#ifndef MS_ASCEND_OPS_DEVICE_ACL_BASE_H
#define MS_ASCEND_OPS_DEVICE_ACL_BASE_H

#include <cstddef>
#include <cstdint>

typedef int aclError;
typedef void* aclrtStream;
typedef enum { ACL_FORMAT_UNDEFINED = -1, ACL_FORMAT_NCHW = 0, ACL_FORMAT_NHWC = 1, ACL_FORMAT_ND = 2 } aclFormat;
typedef enum {
    ACL_DT_UNDEFINED = -1,
    ACL_FLOAT = 0,
    ACL_FLOAT16 = 1,
    ACL_INT8 = 2,
    ACL_INT32 = 3,
    ACL_UINT8 = 4,
    ACL_INT16 = 6,
    ACL_UINT16 = 7,
    ACL_UINT32 = 8,
    ACL_INT64 = 9,
    ACL_UINT64 = 10,
    ACL_DOUBLE = 11,
    ACL_BOOL = 12,
    ACL_STRING = 13,
    ACL_COMPLEX64 = 16,
    ACL_COMPLEX128 = 17,
    ACL_BF16 = 27
} aclDataType;

#endif  // MS_ASCEND_OPS_DEVICE_ACL_BASE_H
