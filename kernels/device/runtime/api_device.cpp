/*!
 * ACL: initialisation, devices, contexts, errors; and what this library offers to the others (runtime_api.h).
 */
#include <unistd.h>

#include <array>
#include <atomic>

#include "runtime/acl_api.h"

using namespace ms_ascend_ops::device;

namespace {

std::atomic<uint64_t> initialized{0};
std::array<std::atomic<bool>, MAX_DEVICES * MAX_DEVICES> peers;

aclError CheckDevice(int64_t device)
{
    RETURN_IF_ERROR(TheDevices().Open());
    return TheDevices().CheckNumber(device);
}

// Finds whether the current device reaches the memory of `peer`.
aclError FindPeer(int32_t peer, std::atomic<bool>** reaches)
{
    uint32_t device = 0;
    RETURN_IF_ERROR(CurrentDevice(&device));
    RETURN_IF_ERROR(CheckDevice(peer));
    if (static_cast<uint32_t>(peer) == device) {
        return Fail(RT_PARAM_INVALID, "device " + std::to_string(peer) + " is the current device, not a peer");
    }
    *reaches = &peers[device * MAX_DEVICES + static_cast<uint32_t>(peer)];
    return SUCCESS;
}

}  // namespace

namespace ms_ascend_ops {
namespace device {

bool ArePeers(uint32_t first, uint32_t second)
{
    return first == second || peers[first * MAX_DEVICES + second] || peers[second * MAX_DEVICES + first];
}

}  // namespace device
}  // namespace ms_ascend_ops

ACL_API aclError aclInit(const char*)
{
    if (initialized.fetch_add(1) > 0) {
        return Fail(REPEAT_INITIALIZE, "aclInit was called before");
    }
    ExplainFaults();
    return TheDevices().Open();
}

ACL_API aclError aclFinalize()
{
    if (initialized.exchange(0) == 0) {
        return Fail(REPEAT_FINALIZE, "aclFinalize: aclInit was not called, or aclFinalize was called before");
    }
    ReleaseDevices();
    return SUCCESS;
}

ACL_API aclError aclFinalizeReference(uint64_t* count)
{
    if (initialized.load() == 0) {
        return Fail(REPEAT_FINALIZE, "aclFinalizeReference: aclInit was not called");
    }
    const uint64_t left = initialized.fetch_sub(1) - 1;
    if (left == 0) {
        ReleaseDevices();
    }
    if (count != nullptr) {
        *count = left;
    }
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
    RETURN_IF_ERROR(CheckDevice(device));
    return UseDevice(device);
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
    RETURN_IF_ERROR(CheckDevice(device));
    return ReleaseDevice(device, true);
}

ACL_API aclError aclrtResetDevice(int32_t device)
{
    RETURN_IF_ERROR(CheckDevice(device));
    return ReleaseDevice(device, false);
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

ACL_API aclError aclrtQueryDeviceStatus(int32_t device, int32_t* status)
{
    RETURN_IF_ERROR(CheckPointer("aclrtQueryDeviceStatus", "deviceStatus", status));
    RETURN_IF_ERROR(CheckDevice(device));
    *status = TheDevices().Ended(static_cast<uint32_t>(device)) ? 1 : 0;
    return SUCCESS;
}

ACL_API aclError aclrtDeviceTaskAbort(int32_t device, uint32_t milliseconds)
{
    RETURN_IF_ERROR(CheckDevice(device));
    return Abort(static_cast<uint32_t>(device), nullptr, milliseconds);
}

ACL_API aclError aclrtDeviceCanAccessPeer(int32_t* can, int32_t device, int32_t peer)
{
    RETURN_IF_ERROR(CheckPointer("aclrtDeviceCanAccessPeer", "canAccessPeer", can));
    RETURN_IF_ERROR(CheckDevice(device));
    RETURN_IF_ERROR(CheckDevice(peer));
    *can = device != peer ? 1 : 0;
    return SUCCESS;
}

ACL_API aclError aclrtDeviceEnablePeerAccess(int32_t peer, uint32_t)
{
    std::atomic<bool>* reaches = nullptr;
    RETURN_IF_ERROR(FindPeer(peer, &reaches));
    reaches->store(true);
    return SUCCESS;
}

ACL_API aclError aclrtDeviceDisablePeerAccess(int32_t peer)
{
    std::atomic<bool>* reaches = nullptr;
    RETURN_IF_ERROR(FindPeer(peer, &reaches));
    reaches->store(false);
    return SUCCESS;
}

ACL_API aclError aclrtDevicePeerAccessStatus(int32_t device, int32_t peer, int32_t* status)
{
    RETURN_IF_ERROR(CheckPointer("aclrtDevicePeerAccessStatus", "status", status));
    RETURN_IF_ERROR(CheckDevice(device));
    RETURN_IF_ERROR(CheckDevice(peer));
    *status = peers[static_cast<uint32_t>(device) * MAX_DEVICES + static_cast<uint32_t>(peer)] ? 1 : 0;
    return SUCCESS;
}

ACL_API aclError aclrtCreateContext(void** context, int32_t device)
{
    RETURN_IF_ERROR(CheckPointer("aclrtCreateContext", "context", context));
    RETURN_IF_ERROR(CheckDevice(device));
    RETURN_IF_ERROR(TheDevices().Start(static_cast<uint32_t>(device)));
    Context* made = nullptr;
    RETURN_IF_ERROR(CreateContext(static_cast<uint32_t>(device), &made));
    SetCurrentContext(made);
    *context = made;
    return SUCCESS;
}

ACL_API aclError aclrtDestroyContext(void* handle)
{
    Context* const context = FindContext(handle);
    if (context == nullptr || context->primary) {
        return Fail(INVALID_PARAM,
                    "aclrtDestroyContext: the context was not made by aclrtCreateContext, or is destroyed");
    }
    return DestroyContext(context);
}

ACL_API aclError aclrtSetCurrentContext(void* handle)
{
    Context* const context = FindContext(handle);
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

ACL_API aclError aclrtCtxGetCurrentDefaultStream(void** handle)
{
    RETURN_IF_ERROR(CheckPointer("aclrtCtxGetCurrentDefaultStream", "stream", handle));
    Stream* stream = nullptr;
    RETURN_IF_ERROR(FindStream(nullptr, &stream));
    *handle = stream;
    return SUCCESS;
}

ACL_API aclError aclrtSetExceptionInfoCallback(void (*callback)(ExceptionInfo*))
{
    SetExceptionCallback(callback);
    return SUCCESS;
}

#define EXCEPTION_INFO(name, member)                        \
    ACL_API uint32_t name(const ExceptionInfo* info)        \
    {                                                       \
        return info == nullptr ? UINT32_MAX : info->member; \
    }
EXCEPTION_INFO(aclrtGetTaskIdFromExceptionInfo, task)
EXCEPTION_INFO(aclrtGetStreamIdFromExceptionInfo, stream)
EXCEPTION_INFO(aclrtGetThreadIdFromExceptionInfo, thread)
EXCEPTION_INFO(aclrtGetDeviceIdFromExceptionInfo, device)
EXCEPTION_INFO(aclrtGetErrorCodeFromExceptionInfo, code)

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
