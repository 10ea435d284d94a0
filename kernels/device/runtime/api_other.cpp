/*!
 * Implements ACL's limits, options and versions, and functions that have nothing to do on this device.
 */
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>

#include "runtime/acl_api.h"

using namespace ms_ascend_ops::device;

namespace {

// Cores that a device may use, by ACL_RT_DEV_RES_CUBE_CORE and ACL_RT_DEV_RES_VECTOR_CORE; 0: all.
constexpr int32_t CORE_KINDS = 2;
std::atomic<uint32_t> limits[CORE_KINDS];

aclError GetCores(const char* function, int32_t kind, uint32_t* value)
{
    RETURN_IF_ERROR(CheckPointer(function, "value", value));
    if (kind < 0 || kind >= CORE_KINDS) {
        return Fail(INVALID_PARAM, std::string(function) + ": type must be 0 or 1, got " + std::to_string(kind));
    }
    const MsAscendDeviceChip& chip = TheSettings().chip;
    const uint32_t limit = limits[kind].load();
    *value = limit > 0 ? limit : kind == 0 ? chip.cubeCores : chip.vectorCores;
    return SUCCESS;
}

aclError SetCores(const char* function, int32_t kind, uint32_t value)
{
    uint32_t all = 0;
    RETURN_IF_ERROR(GetCores(function, kind, &all));
    const MsAscendDeviceChip& chip = TheSettings().chip;
    const uint32_t most = kind == 0 ? chip.cubeCores : chip.vectorCores;
    if (value == 0 || value > most) {
        return Fail(INVALID_PARAM, std::string(function) + ": value must be from 1 to " + std::to_string(most) +
                                       ", got " + std::to_string(value));
    }
    limits[kind].store(value);
    return SUCCESS;
}

std::mutex optionMutex;
auto& contextOptions = *new std::map<int32_t, int64_t>;
auto& processOptions = *new std::map<int32_t, int64_t>;

aclError SetOption(std::map<int32_t, int64_t>& options, int32_t option, int64_t value)
{
    std::lock_guard<std::mutex> lock(optionMutex);
    options[option] = value;
    return SUCCESS;
}

// aclopCompileAndExecute compiles with these options, which are kept for those who ask. This chip takes operators that
// are compiled already unless it is told otherwise; clients choose aclnn functions by that.
constexpr int32_t JIT_COMPILE = 10;
auto& compileOptions = *new std::map<int32_t, std::string>{{JIT_COMPILE, "disable"}};

std::string CompileOption(int32_t option)
{
    std::lock_guard<std::mutex> lock(optionMutex);
    const auto found = compileOptions.find(option);
    return found == compileOptions.end() ? std::string() : found->second;
}

// aclCannAttr: infinity and NaN as IEEE 754 has them, bfloat16, and compilation of operators, which this chip has all.
constexpr std::array<int32_t, 3> CANN_ATTRIBUTES{0, 1, 2};

std::atomic<int32_t> saturation{1};

struct PackageVersion {  // aclCANNPackageVersion
    char version[128];
    char majorVersion[64];
    char minorVersion[64];
    char releaseVersion[64];
    char patchVersion[64];
};

struct AllocatorDescription {
    void* functions[5];
};

}  // namespace

ACL_API aclError aclGetDeviceCapability(uint32_t, int32_t kind, int64_t* value)
{
    RETURN_IF_ERROR(CheckPointer("aclGetDeviceCapability", "value", value));
    const MsAscendDeviceChip& chip = TheSettings().chip;
    const int64_t values[] = {chip.cubeCores, chip.vectorCores, static_cast<int64_t>(chip.l2Bytes)};
    if (kind < 0 || kind >= static_cast<int32_t>(std::size(values))) {
        return Fail(INVALID_PARAM,
                    "aclGetDeviceCapability: deviceInfo must be from 0 to 2, got " + std::to_string(kind));
    }
    *value = values[kind];
    return SUCCESS;
}

ACL_API aclError aclrtGetDeviceResLimit(int32_t, int32_t kind, uint32_t* value)
{
    return GetCores("aclrtGetDeviceResLimit", kind, value);
}

ACL_API aclError aclrtSetDeviceResLimit(int32_t, int32_t kind, uint32_t value)
{
    return SetCores("aclrtSetDeviceResLimit", kind, value);
}

ACL_API aclError aclrtResetDeviceResLimit(int32_t)
{
    limits[0].store(0);
    limits[1].store(0);
    return SUCCESS;
}

ACL_API aclError aclrtGetStreamResLimit(void*, int32_t kind, uint32_t* value)
{
    return GetCores("aclrtGetStreamResLimit", kind, value);
}

ACL_API aclError aclrtGetResInCurrentThread(int32_t kind, uint32_t* value)
{
    return GetCores("aclrtGetResInCurrentThread", kind, value);
}

ACL_API aclError aclrtCtxSetSysParamOpt(int32_t option, int64_t value)
{
    return SetOption(contextOptions, option, value);
}

ACL_API aclError aclrtSetSysParamOpt(int32_t option, int64_t value)
{
    return SetOption(processOptions, option, value);
}

// Options of a context have no default.
ACL_API aclError aclrtCtxGetSysParamOpt(int32_t option, int64_t* value)
{
    RETURN_IF_ERROR(CheckPointer("aclrtCtxGetSysParamOpt", "value", value));
    std::lock_guard<std::mutex> lock(optionMutex);
    const auto found = contextOptions.find(option);
    if (found == contextOptions.end()) {
        return Fail(RT_SYSPARAMOPT_NOT_SET, "aclrtCtxGetSysParamOpt: option " + std::to_string(option) + " is not set");
    }
    *value = found->second;
    return SUCCESS;
}

// Options of a process are 0 until they are set.
ACL_API aclError aclrtGetSysParamOpt(int32_t option, int64_t* value)
{
    RETURN_IF_ERROR(CheckPointer("aclrtGetSysParamOpt", "value", value));
    std::lock_guard<std::mutex> lock(optionMutex);
    const auto found = processOptions.find(option);
    *value = found == processOptions.end() ? 0 : found->second;
    return SUCCESS;
}

ACL_API aclError aclrtSetDeviceSatMode(int32_t mode)
{
    saturation.store(mode);
    return SUCCESS;
}

ACL_API aclError aclrtGetDeviceSatMode(int32_t* mode)
{
    RETURN_IF_ERROR(CheckPointer("aclrtGetDeviceSatMode", "mode", mode));
    *mode = saturation.load();
    return SUCCESS;
}

ACL_API aclError aclrtDeviceGetBareTgid(int32_t* pid)
{
    RETURN_IF_ERROR(CheckPointer("aclrtDeviceGetBareTgid", "pid", pid));
    *pid = getpid();
    return SUCCESS;
}

// There are no errors of memory to repair.
ACL_API aclError aclrtGetMemUceInfo(int32_t, void*, size_t, size_t* count)
{
    RETURN_IF_ERROR(CheckPointer("aclrtGetMemUceInfo", "retSize", count));
    *count = 0;
    return SUCCESS;
}

ACL_API aclError aclsysGetCANNVersion(int32_t, PackageVersion* version)
{
    RETURN_IF_ERROR(CheckPointer("aclsysGetCANNVersion", "version", version));
    *version = {"9.0.1", "9", "0", "1", ""};
    return SUCCESS;
}

ACL_API aclError aclrtGetVersion(int32_t* major, int32_t* minor, int32_t* patch)
{
    RETURN_IF_ERROR(CheckPointer("aclrtGetVersion", "majorVersion", major));
    RETURN_IF_ERROR(CheckPointer("aclrtGetVersion", "minorVersion", minor));
    RETURN_IF_ERROR(CheckPointer("aclrtGetVersion", "patchVersion", patch));
    *major = 1;
    *minor = 15;
    *patch = 0;
    return SUCCESS;
}

ACL_API aclError aclGetCannAttributeList(const int32_t** attributes, size_t* count)
{
    RETURN_IF_ERROR(CheckPointer("aclGetCannAttributeList", "cannAttrList", attributes));
    RETURN_IF_ERROR(CheckPointer("aclGetCannAttributeList", "num", count));
    *attributes = CANN_ATTRIBUTES.data();
    *count = CANN_ATTRIBUTES.size();
    return SUCCESS;
}

ACL_API aclError aclGetCannAttribute(int32_t attribute, int32_t* value)
{
    RETURN_IF_ERROR(CheckPointer("aclGetCannAttribute", "value", value));
    const auto* const end = CANN_ATTRIBUTES.end();
    if (std::find(CANN_ATTRIBUTES.begin(), end, attribute) == end) {
        return Fail(INVALID_PARAM,
                    "aclGetCannAttribute: cannAttr must be from 0 to 2, got " + std::to_string(attribute));
    }
    *value = 1;
    return SUCCESS;
}

ACL_API size_t aclGetCompileoptSize(int32_t option)
{
    return CompileOption(option).size() + 1;
}

ACL_API aclError aclGetCompileopt(int32_t option, char* value, size_t size)
{
    RETURN_IF_ERROR(CheckPointer("aclGetCompileopt", "value", value));
    const std::string text = CompileOption(option);
    if (size <= text.size()) {
        return Fail(INVALID_PARAM, "aclGetCompileopt: length must be at least " + std::to_string(text.size() + 1) +
                                       ", got " + std::to_string(size));
    }
    std::memcpy(value, text.c_str(), text.size() + 1);
    return SUCCESS;
}

ACL_API aclError aclSetCompileopt(int32_t option, const char* value)
{
    RETURN_IF_ERROR(CheckPointer("aclSetCompileopt", "value", value));
    std::lock_guard<std::mutex> lock(optionMutex);
    compileOptions[option] = value;
    return SUCCESS;
}

ACL_API void* aclrtAllocatorCreateDesc()
{
    return new AllocatorDescription{};
}

ACL_API aclError aclrtAllocatorDestroyDesc(void* description)
{
    delete static_cast<AllocatorDescription*>(description);
    return SUCCESS;
}

// These functions change nothing here. Arguments of C functions that are not looked at need not be declared.
#define NOTHING_TO_DO(name) \
    ACL_API aclError name() \
    {                       \
        return SUCCESS;     \
    }
NOTHING_TO_DO(aclAppLog)
NOTHING_TO_DO(aclrtAllocatorRegister)
NOTHING_TO_DO(aclrtAllocatorSetAllocAdviseFuncToDesc)
NOTHING_TO_DO(aclrtAllocatorSetAllocFuncToDesc)
NOTHING_TO_DO(aclrtAllocatorSetFreeFuncToDesc)
NOTHING_TO_DO(aclrtAllocatorSetGetAddrFromBlockFuncToDesc)
NOTHING_TO_DO(aclrtAllocatorSetObjToDesc)
NOTHING_TO_DO(aclrtAllocatorUnregister)
NOTHING_TO_DO(aclrtCmoAsync)
NOTHING_TO_DO(aclrtMemFlush)
NOTHING_TO_DO(aclrtMemInvalidate)
NOTHING_TO_DO(aclrtMemUceRepair)
NOTHING_TO_DO(aclrtResetStreamResLimit)
NOTHING_TO_DO(aclrtSetOpExecuteTimeOut)
NOTHING_TO_DO(aclrtSetOpExecuteTimeOutWithMs)
NOTHING_TO_DO(aclrtSetOpWaitTimeout)

// Nothing ends an operator that takes long. The time that is in force, in microseconds, is the one that the caller
// sets.
ACL_API aclError aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t* actualTimeout)
{
    RETURN_IF_ERROR(CheckPointer("aclrtSetOpExecuteTimeOutV2", "actualTimeout", actualTimeout));
    *actualTimeout = timeout;
    return SUCCESS;
}
NOTHING_TO_DO(aclrtSetStreamResLimit)
NOTHING_TO_DO(aclrtSetTsDevice)
NOTHING_TO_DO(aclrtUnuseStreamResInCurrentThread)
NOTHING_TO_DO(aclrtUseStreamResInCurrentThread)
