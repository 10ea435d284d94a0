/*!
 * The files of ACL's functions share this. Their names, arguments and error codes are those of CANN's acl/acl_rt.h.
 */
#ifndef MS_ASCEND_OPS_DEVICE_RUNTIME_ACL_API_H
#define MS_ASCEND_OPS_DEVICE_RUNTIME_ACL_API_H

#include "runtime/callbacks.h"
#include "runtime/copies.h"
#include "runtime/settings.h"

#define ACL_API extern "C" __attribute__((visibility("default")))
#define RETURN_IF_ERROR(call)           \
    if (const aclError failed = (call)) \
    return failed

namespace ms_ascend_ops {
namespace device {

inline aclError CheckPointer(const char* function, const char* name, const void* pointer)
{
    return pointer != nullptr ? static_cast<aclError>(SUCCESS)
                              : Fail(INVALID_PARAM, std::string(function) + ": " + name + " must not be null");
}

}  // namespace device
}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_DEVICE_RUNTIME_ACL_API_H
