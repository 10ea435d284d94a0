/*!
 * Host memory that was made by aclrtMallocHost: asynchronous copies of other host memory are finished when they return.
 */
#ifndef MS_ASCEND_OPS_DEVICE_RUNTIME_HOST_MEMORY_H
#define MS_ASCEND_OPS_DEVICE_RUNTIME_HOST_MEMORY_H

#include "runtime/errors.h"

namespace ms_ascend_ops {
namespace device {

aclError AllocateHost(void** address, uint64_t bytes);
aclError FreeHost(void* address);
bool IsPinned(uint64_t address);

}  // namespace device
}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_DEVICE_RUNTIME_HOST_MEMORY_H
