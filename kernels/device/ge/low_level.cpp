/*!
 * Functions below ACL that report to CANN's profiler. They may pass: no profile can be begun here.
 */
#include <cstdint>

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT uint64_t MsprofSysCycleTime()
{
    return 0;
}

EXPORT uint64_t MsprofGetHashId()
{
    return 0;
}

EXPORT int32_t MsprofReportApi()
{
    return 0;
}

EXPORT int32_t MsprofReportCompactInfo()
{
    return 0;
}

EXPORT int32_t MsprofReportAdditionalInfo()
{
    return 0;
}

EXPORT int32_t MsprofRegisterCallback()
{
    return 0;
}
