/*!
 * Declares a rank's communicator, which the files of HCCL's functions share.
 */
#ifndef MS_ASCEND_OPS_DEVICE_HCCL_COMMUNICATOR_H
#define MS_ASCEND_OPS_DEVICE_HCCL_COMMUNICATOR_H

#include <string>
#include <vector>

#include "hccl/hccl_api.h"
#include "protocol/call.h"
#include "runtime_api.h"

#define HCCL_API extern "C" __attribute__((visibility("default")))

namespace ms_ascend_ops {
namespace device {

struct Communicator {
    std::string id;    // the same for all ranks, and for no other communicator of this machine
    std::string name;  // for users
    uint32_t rank = 0;
    uint32_t size = 0;
};

inline HcclResult Fail(HcclResult code, const std::string& text)
{
    MsAscendDeviceSetError(text.c_str());
    return code;
}

inline HcclResult Launch(void* stream, const CallWriter& call)
{
    const std::vector<uint8_t>& bytes = call.Bytes();
    return MsAscendDeviceCall(stream, bytes.data(), bytes.size()) == 0 ? HCCL_SUCCESS : HCCL_E_RUNTIME;
}

}  // namespace device
}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_DEVICE_HCCL_COMMUNICATOR_H
