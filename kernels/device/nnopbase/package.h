/*!
 * Finds packages of operators as they are installed: CANN's layout under ASCEND_CUSTOM_OPP_PATH and
 * $ASCEND_OPP_PATH/vendors.
 */
#ifndef MS_ASCEND_OPS_DEVICE_NNOPBASE_PACKAGE_H
#define MS_ASCEND_OPS_DEVICE_NNOPBASE_PACKAGE_H

#include <string>
#include <vector>

#include "op_host_api.h"

namespace ms_ascend_ops {
namespace device {

// The libraries of a package that CANN builds of op_host: tiling lies in one (op_tiling), inference in the other
// (op_proto). Null functions where it has none that was made for the emulated device.
struct OpHost {
    decltype(&MsAscendHostTile) tile = nullptr;
    decltype(&MsAscendHostReason) tilingReason = nullptr;
    decltype(&MsAscendHostInferShape) inferShape = nullptr;
    decltype(&MsAscendHostReason) inferenceReason = nullptr;
};

struct Package {
    std::string folder;
    OpHost host;
};

// The package that has an operator for a chip (as "ascend910b"), in the order in which CANN looks; null: none, and
// `searched` says where.
const Package* FindPackage(const std::string& type, const std::string& computeUnit, std::string& searched);

}  // namespace device
}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_DEVICE_NNOPBASE_PACKAGE_H
