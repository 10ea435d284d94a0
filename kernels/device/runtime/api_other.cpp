/*!
 * ACL: what is asked of a chip, and functions that have nothing to do on this device.
 */
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "runtime/acl_api.h"

using namespace ms_ascend_ops::device;

namespace {

uint32_t Cores(int32_t type)
{
    const MsAscendDeviceChip& chip = TheSettings().chip;
    return type == 0 ? chip.cubeCores : chip.vectorCores;  // ACL_RT_DEV_RES_CUBE_CORE, ACL_RT_DEV_RES_VECTOR_CORE
}

}  // namespace

ACL_API aclError aclrtGetDeviceResLimit(int32_t, int32_t type, uint32_t* value)
{
    *value = Cores(type);
    return SUCCESS;
}

ACL_API aclError aclrtGetStreamResLimit(void*, int32_t type, uint32_t* value)
{
    *value = Cores(type);
    return SUCCESS;
}

ACL_API aclError aclrtGetResInCurrentThread(int32_t type, uint32_t* value)
{
    *value = Cores(type);
    return SUCCESS;
}

ACL_API aclError aclrtDeviceGetBareTgid(int32_t* pid)
{
    *pid = getpid();
    return SUCCESS;
}

struct PackageVersion {
    char version[128];
    char majorVersion[64];
    char minorVersion[64];
    char releaseVersion[64];
    char patchVersion[64];
};

ACL_API aclError aclsysGetCANNVersion(int32_t, PackageVersion* version)
{
    std::memset(version, 0, sizeof(*version));
    std::strcpy(version->version, "9.0.1");
    std::strcpy(version->majorVersion, "9");
    std::strcpy(version->minorVersion, "0");
    std::strcpy(version->releaseVersion, "1");
    return SUCCESS;
}

ACL_API aclError aclGetCannAttributeList(const char**, size_t)
{
    return SUCCESS;
}

ACL_API aclError aclGetCannAttribute(int32_t, int32_t* value)
{
    *value = 0;
    return SUCCESS;
}

ACL_API size_t aclGetCompileoptSize(int32_t)
{
    return 64;
}

ACL_API aclError aclGetCompileopt(int32_t, char* value, size_t size)
{
    std::snprintf(value, size, "0");
    return SUCCESS;
}

// Settings that change nothing here. Arguments of C functions that are not looked at need not be declared.
#define NOTHING_TO_DO(name) \
    ACL_API aclError name() \
    {                       \
        return SUCCESS;     \
    }
NOTHING_TO_DO(aclSetCompileopt)
NOTHING_TO_DO(aclrtSetOpExecuteTimeOut)
NOTHING_TO_DO(aclrtSetOpExecuteTimeOutWithMs)
NOTHING_TO_DO(aclrtSetOpWaitTimeout)
NOTHING_TO_DO(aclrtSetExceptionInfoCallback)
NOTHING_TO_DO(aclrtSetDeviceSatMode)
NOTHING_TO_DO(aclrtCtxSetSysParamOpt)
NOTHING_TO_DO(aclrtSetSysParamOpt)
NOTHING_TO_DO(aclrtSetDeviceResLimit)
NOTHING_TO_DO(aclrtResetDeviceResLimit)
NOTHING_TO_DO(aclrtSetStreamResLimit)
NOTHING_TO_DO(aclrtResetStreamResLimit)
NOTHING_TO_DO(aclrtUseStreamResInCurrentThread)
NOTHING_TO_DO(aclrtUnuseStreamResInCurrentThread)
NOTHING_TO_DO(aclrtMemFlush)
NOTHING_TO_DO(aclrtMemInvalidate)
NOTHING_TO_DO(aclrtCmoAsync)
NOTHING_TO_DO(aclAppLog)
