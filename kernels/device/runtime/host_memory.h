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
// aclrtHostRegister: memory of the program, of which `device` gets an address of its own.
aclError RegisterHost(uint32_t device, void* host, uint64_t bytes, void** address);
aclError UnregisterHost(void* host);

}  // namespace device
}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_DEVICE_RUNTIME_HOST_MEMORY_H
