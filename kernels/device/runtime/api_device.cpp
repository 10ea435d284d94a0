/*!
 * ACL: initialisation, devices, contexts, errors; and what this library offers to the others (runtime_api.h).
 */
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "runtime/acl_api.h"

using namespace ms_ascend_ops::device;

namespace {

std::atomic<bool> initialized{false};

}  // namespace

ACL_API aclError aclInit(const char*)
{
    if (initialized.exchange(true)) {
        return Fail(REPEAT_INITIALIZE, "aclInit was called before");
    }
    ExplainFaults();
    return TheDevices().Open();
}

ACL_API aclError aclFinalize()
{
    if (!initialized.exchange(false)) {
        return Fail(REPEAT_FINALIZE, "aclFinalize: aclInit was not called, or aclFinalize was called before");
    }
    TheDevices().StopAll();
    return SUCCESS;
}

ACL_API const char* aclGetRecentErrMsg()
{
    return TakeErrorText();
}

ACL_API aclError aclrtGetLastError(int32_t)
{
    return LastErrorCode(true);
}

ACL_API aclError aclrtPeekAtLastError(int32_t)
{
    return LastErrorCode(false);
}

ACL_API const char* aclrtGetSocName()
{
    return TheSettings().soc.c_str();
}

ACL_API aclError aclrtGetRunMode(int32_t* mode)
{
    constexpr int32_t ACL_HOST = 1;
    RETURN_IF_ERROR(CheckPointer("aclrtGetRunMode", "runMode", mode));
    *mode = ACL_HOST;
    return SUCCESS;
}

ACL_API aclError aclrtGetDeviceCount(uint32_t* count)
{
    RETURN_IF_ERROR(CheckPointer("aclrtGetDeviceCount", "count", count));
    *count = TheSettings().devices;
    return SUCCESS;
}

ACL_API aclError aclrtSetDevice(int32_t device)
{
    ExplainFaults();
    RETURN_IF_ERROR(TheDevices().Open());
    return SetCurrentDevice(device);
}

ACL_API aclError aclrtGetDevice(int32_t* device)
{
    RETURN_IF_ERROR(CheckPointer("aclrtGetDevice", "deviceId", device));
    uint32_t number = 0;
    RETURN_IF_ERROR(CurrentDevice(&number));
    *device = static_cast<int32_t>(number);
    return SUCCESS;
}

ACL_API aclError aclrtResetDeviceForce(int32_t device)
{
    RETURN_IF_ERROR(TheDevices().Open());
    RETURN_IF_ERROR(TheDevices().CheckNumber(device));
    ForgetDevice(static_cast<uint32_t>(device));
    TheDevices().Stop(static_cast<uint32_t>(device));
    return SUCCESS;
}

ACL_API aclError aclrtResetDevice(int32_t device)
{
    return aclrtResetDeviceForce(device);
}

ACL_API aclError aclrtSynchronizeDeviceWithTimeout(int32_t milliseconds)
{
    uint32_t device = 0;
    RETURN_IF_ERROR(CurrentDevice(&device));
    return SynchronizeDevice(device, milliseconds);
}

ACL_API aclError aclrtSynchronizeDevice()
{
    return aclrtSynchronizeDeviceWithTimeout(-1);
}

ACL_API aclError aclrtCreateContext(void** context, int32_t device)
{
    RETURN_IF_ERROR(CheckPointer("aclrtCreateContext", "context", context));
    RETURN_IF_ERROR(TheDevices().Open());
    RETURN_IF_ERROR(TheDevices().CheckNumber(device));
    RETURN_IF_ERROR(TheDevices().Start(static_cast<uint32_t>(device)));
    Context* made = nullptr;
    RETURN_IF_ERROR(CreateContext(static_cast<uint32_t>(device), &made));
    SetCurrentContext(made);
    *context = made;
    return SUCCESS;
}

ACL_API aclError aclrtDestroyContext(void* handle)
{
    Context* const context = ContextOf(handle);
    if (context == nullptr || context->primary) {
        return Fail(INVALID_PARAM,
                    "aclrtDestroyContext: the context was not made by aclrtCreateContext, or is destroyed");
    }
    if (context->defaultStream != nullptr) {
        DestroyStream(context->defaultStream);
    }
    context->used = false;
    return SUCCESS;
}

ACL_API aclError aclrtSetCurrentContext(void* handle)
{
    Context* const context = ContextOf(handle);
    if (context == nullptr) {
        return Fail(INVALID_PARAM, "aclrtSetCurrentContext: the context was not created, or is destroyed");
    }
    SetCurrentContext(context);
    return SUCCESS;
}

ACL_API aclError aclrtGetCurrentContext(void** context)
{
    RETURN_IF_ERROR(CheckPointer("aclrtGetCurrentContext", "context", context));
    Context* current = nullptr;
    RETURN_IF_ERROR(CurrentContext(&current));
    *context = current;
    return SUCCESS;
}

ACL_API int MsAscendDeviceCall(void* handle, const void* call, size_t bytes)
{
    Stream* stream = nullptr;
    RETURN_IF_ERROR(FindStream(handle, &stream));
    CommandHeader command{0, CommandKind::CALL, 0, static_cast<uint32_t>(bytes)};
    if (bytes + sizeof(command) <= MAX_COMMAND_BYTES) {
        return Submit(stream, &command, sizeof(command), call, bytes);
    }
    return SubmitStored(stream, call, bytes);
}

ACL_API const MsAscendDeviceChip* MsAscendDeviceGetChip()
{
    return &TheSettings().chip;
}

ACL_API void MsAscendDeviceSetError(const char* text)
{
    Fail(RT_PARAM_INVALID, text);
}
