/*!
 * op_host, which calculates a launch, and the kernel entries of the CANN package agree on this.
 */
#ifndef MS_ASCEND_OPS_INTERFACE_PACKAGE_H
#define MS_ASCEND_OPS_INTERFACE_PACKAGE_H

#include <cstdint>

namespace ms_ascend_ops {

constexpr uint64_t TILING_KEY = 1;  // there is one path for each kernel binary; the tiling data has the differences
// CANN keeps these bytes at the beginning of a workspace on Atlas A2 for itself (RESERVED_WORKSPACE of its headers). On
// a host nothing lies there.
constexpr uint64_t LIBRARY_WORKSPACE_BYTES = 16 * 1024 * 1024;

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_INTERFACE_PACKAGE_H
