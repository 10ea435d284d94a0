/*!
 * Declares error codes of ACL, and the text of the last error of each thread.
 */
#ifndef MS_ASCEND_OPS_DEVICE_RUNTIME_ERRORS_H
#define MS_ASCEND_OPS_DEVICE_RUNTIME_ERRORS_H

#include <cstdint>
#include <string>

using aclError = int;

namespace ms_ascend_ops {
namespace device {

// The names are those of acl_base.h and rt_error_codes.h without ACL_ERROR_.
enum ErrorCode : aclError {
    SUCCESS = 0,
    INVALID_PARAM = 100000,
    UNINITIALIZE = 100001,
    REPEAT_INITIALIZE = 100002,
    WAIT_CALLBACK_TIMEOUT = 100036,
    THREAD_NOT_SUBSCRIBE = 100035,
    REPEAT_FINALIZE = 100037,
    RT_PARAM_INVALID = 107000,
    RT_INVALID_DEVICEID = 107001,
    RT_CONTEXT_NULL = 107002,
    RT_STREAM_CONTEXT = 107003,
    RT_EVENT_TIMESTAMP_INVALID = 107006,
    RT_STREAM_SUBSCRIBE = 107011,
    RT_THREAD_SUBSCRIBE = 107012,
    RT_STREAM_NO_CB_REG = 107015,
    RT_INVALID_HANDLE = 107017,
    RT_WAIT_TIMEOUT = 107019,
    RT_SYSPARAMOPT_NOT_SET = 107021,
    RT_STREAM_ABORT = 107023,
    RT_STREAM_CAPTURED = 107027,
    RT_STREAM_NOT_CAPTURED = 107029,
    RT_STREAM_CAPTURE_UNMATCHED = 107036,
    RT_FEATURE_NOT_SUPPORT = 207000,
    RT_MEMORY_ALLOCATION = 207001,
    RT_MEMORY_FREE = 207002,
    RT_NO_DEVICE = 207004,
    RT_NO_EVENT_RESOURCE = 207007,
    RT_NO_STREAM_RESOURCE = 207008,
    RT_INTERNAL_ERROR = 507000,
    RT_LOST_HEARTBEAT = 507010,
    RT_REPORT_TIMEOUT = 507012,
    RT_AICORE_EXCEPTION = 507015,
    RT_DEV_SETUP_ERROR = 507033,
    RT_VECTOR_CORE_EXCEPTION = 507035,
    RT_STREAM_SYNC_TIMEOUT = 507046,
    RT_EVENT_SYNC_TIMEOUT = 507047,
    RT_COPY_DATA = 507052,
};

// Sets the text that aclGetRecentErrMsg returns next in this thread; returns the code.
aclError Fail(aclError code, const std::string& text);
std::string Hex(uint64_t address);
const std::string& LastErrorText();
// Serves aclGetRecentErrMsg: a text is given once.
const char* TakeErrorText();
aclError LastErrorCode(bool clears);

}  // namespace device
}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_DEVICE_RUNTIME_ERRORS_H
