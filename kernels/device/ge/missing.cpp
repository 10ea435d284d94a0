/*!
 * Answers a call of a function that the emulated device does not have: it says which function, who called it and what
 * to use instead. ms_ascend_ops/device/stubs.py makes such functions from the names that a client asks CANN for.
 */
#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include "runtime_api.h"

namespace {

constexpr long API_NOT_SUPPORTED = 200001;  // ACL_ERROR_API_NOT_SUPPORT

struct Family {
    const char* prefix;
    const char* what;
    const char* instead;
};

// The first that fits.
const Family FAMILIES[] = {
    {"_Z", "the graph engine (GE, jit_level O2)", "use PyNative, or ms.jit(jit_level=\"O0\")"},
    {"aclnn", "this operator of CANN", "docs/emulated_device.md lists those that it has, and says how one is added"},
    {"aclop", "operators by their names of GE", "docs/emulated_device.md lists what it has of CANN"},
    {"acltdt", "queues between host and device (data sinking)", "use dataset_sink_mode=False"},
    {"aclmdl", "models of ATC (.om) and captured graphs", "run the MindIR, or use jit_level=\"O0\" without capture"},
    {"aclprof", "CANN's profiler", "use `python -m ms_ascend_ops emulate --trace FILE`"},
    {"Msprof", "CANN's profiler", "use `python -m ms_ascend_ops emulate --trace FILE`"},
    {"Hccl", "this function of HCCL", "docs/emulated_device.md lists those that it has"},
    {"Hcom", "communication by the graph engine", "use PyNative, or ms.jit(jit_level=\"O0\")"},
    {"rt", "the runtime below ACL, which takes code that was compiled for an NPU, as DVM (jit_level O1) writes it",
     "use PyNative, or ms.jit(jit_level=\"O0\")"},
    {"hal", "the NPU's driver", "use ACL's functions"},
};

const Family& FamilyOf(const char* name)
{
    static const Family other = {"", "this function of CANN", "docs/emulated_device.md lists what it has of CANN"};
    for (const Family& family : FAMILIES) {
        if (std::strncmp(name, family.prefix, std::strlen(family.prefix)) == 0) {
            return family;
        }
    }
    return other;
}

std::string Demangled(const char* name)
{
    int status = 0;
    char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
    std::string result = status == 0 && text != nullptr ? text : name;
    std::free(text);
    return result.substr(0, result.find('('));
}

std::string Describe(const char* name, const void* caller)
{
    const Family& family = FamilyOf(name);
    const std::string text = "emulated device: it does not have " + Demangled(name) + " (called by " +
                             MsAscendDeviceCallerAt(caller) + "), that is " + family.what + ": " + family.instead;
    MsAscendDeviceSetError(text.c_str());
    return text;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT const char* MsAscendDeviceCallerAt(const void* address)
{
    static thread_local std::string caller;
    Dl_info info;
    if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) {
        return "an unknown caller";
    }
    const std::string path = info.dli_fname;
    caller = path.substr(path.rfind('/') + 1);
    if (info.dli_sname != nullptr) {
        caller += " in " + Demangled(info.dli_sname);
    }
    return caller.c_str();
}

// A function of C returns an error; one of C++ has no way to, and throws: its callers tell a user what they catch.
EXPORT long MsAscendDeviceMissing(const char* name)
{
    const std::string text = Describe(name, __builtin_return_address(0));
    if (std::strncmp(name, "_Z", 2) == 0) {
        throw std::runtime_error(text);
    }
    return API_NOT_SUPPORTED;
}

// DVM asks for these by name and registers the code that it has written for a graph. It would tell its user nothing of
// an error's text, so that the first such call throws.
#define CODE_OF_AN_NPU(name)                                                    \
    EXPORT long name()                                                          \
    {                                                                           \
        throw std::runtime_error(Describe(#name, __builtin_return_address(0))); \
    }
CODE_OF_AN_NPU(rtDevBinaryRegister)
CODE_OF_AN_NPU(rtFunctionRegister)
CODE_OF_AN_NPU(rtKernelLaunch)
CODE_OF_AN_NPU(rtGetC2cCtrlAddr)
