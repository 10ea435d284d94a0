/*!
 * Implements functions below ACL that report to CANN's profiler. They may pass: no profile can be begun here.
 */
#include <cstdint>

#define EXPORT extern "C" __attribute__((visibility("default")))

#define RETURNS_ZERO(type, name) \
    EXPORT type name()           \
    {                            \
        return 0;                \
    }

RETURNS_ZERO(uint64_t, MsprofSysCycleTime)
RETURNS_ZERO(uint64_t, MsprofGetHashId)
RETURNS_ZERO(int32_t, MsprofReportApi)
RETURNS_ZERO(int32_t, MsprofReportCompactInfo)
RETURNS_ZERO(int32_t, MsprofReportAdditionalInfo)
RETURNS_ZERO(int32_t, MsprofRegisterCallback)
