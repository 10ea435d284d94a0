/*!
 * This process copies between the host's memory and the devices'.
 */
#ifndef MS_ASCEND_OPS_DEVICE_RUNTIME_COPIES_H
#define MS_ASCEND_OPS_DEVICE_RUNTIME_COPIES_H

#include "runtime/memory.h"

namespace ms_ascend_ops {
namespace device {

// Copies at once. An error has its text set.
aclError CopyNow(uint64_t destination, uint64_t source, uint64_t bytes);
aclError CopyRows(const CopyCommand& command);
aclError FillNow(uint64_t address, int32_t value, uint64_t bytes);
// Checks that `bytes` from a device address on are allocated; a host address always is.
aclError CheckRange(const char* what, uint64_t address, uint64_t bytes);

// Returns true if a copy between the devices was enabled (aclrtDeviceEnablePeerAccess).
bool ArePeers(uint32_t first, uint32_t second);

// The handler of SIGSEGV that tells a program that it touches device memory.
void ExplainFaults();

}  // namespace device
}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_DEVICE_RUNTIME_COPIES_H
