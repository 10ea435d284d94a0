/*!
 * Functions below ACL that DVM (jit_level O1) asks for by name. It writes code of the NPU when a graph is compiled, and
 * registers it: the first such call throws, as DVM would tell its user nothing of an error's text. What reports to
 * CANN's profiler may pass: no profile can be begun here.
 */
#include <cstdint>
#include <stdexcept>
#include <string>

#include "runtime_api.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

[[noreturn]] long NoCodeOfAnNpu(const char* function)
{
    const std::string text = std::string("emulated device: it does not have ") + function +
                             ", which takes code that was compiled for an NPU, as DVM (jit_level O1) writes it: use "
                             "PyNative, or ms.jit(jit_level=\"O0\")";
    MsAscendDeviceSetError(text.c_str());
    throw std::runtime_error(text);
}

}  // namespace

EXPORT long rtDevBinaryRegister()
{
    return NoCodeOfAnNpu("rtDevBinaryRegister");
}

EXPORT long rtFunctionRegister()
{
    return NoCodeOfAnNpu("rtFunctionRegister");
}

EXPORT long rtKernelLaunch()
{
    return NoCodeOfAnNpu("rtKernelLaunch");
}

EXPORT long rtGetC2cCtrlAddr()
{
    return NoCodeOfAnNpu("rtGetC2cCtrlAddr");
}

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
