/*!
 * Implements ACL's streams, callbacks and captures.
 */
#include "runtime/acl_api.h"
#include "runtime/captures.h"

using namespace ms_ascend_ops::device;

namespace {

aclError CreateStreamWith(void** stream, uint32_t priority, uint32_t flags)
{
    RETURN_IF_ERROR(CheckPointer("aclrtCreateStream", "stream", stream));
    Context* context = nullptr;
    RETURN_IF_ERROR(CurrentContext(&context));
    Stream* made = nullptr;
    RETURN_IF_ERROR(CreateStream(context, &made));
    made->priority = priority;
    made->flags = flags;
    *stream = made;
    return SUCCESS;
}

// The default stream is not the program's.
aclError FindOwnStream(const char* function, void* handle, Stream** stream)
{
    RETURN_IF_ERROR(CheckPointer(function, "stream", handle));
    return FindStream(handle, stream);
}

template <typename T>
aclError AskStream(const char* function, void* handle, T* value, T Stream::* member)
{
    RETURN_IF_ERROR(CheckPointer(function, "value", value));
    Stream* stream = nullptr;
    RETURN_IF_ERROR(FindStream(handle, &stream));
    *value = stream->*member;
    return SUCCESS;
}

}  // namespace

ACL_API aclError aclrtCreateStream(void** stream)
{
    return CreateStreamWith(stream, 0, 0);
}

ACL_API aclError aclrtCreateStreamWithConfig(void** stream, uint32_t priority, uint32_t flags)
{
    return CreateStreamWith(stream, priority, flags);
}

ACL_API aclError aclrtDestroyStream(void* handle)
{
    Stream* stream = nullptr;
    RETURN_IF_ERROR(FindOwnStream("aclrtDestroyStream", handle, &stream));
    return DestroyStream(stream);
}

ACL_API aclError aclrtDestroyStreamForce(void* handle)
{
    Stream* stream = nullptr;
    RETURN_IF_ERROR(FindOwnStream("aclrtDestroyStreamForce", handle, &stream));
    SlotOf(stream).aborted.store(1);
    DestroyStream(stream);
    return SUCCESS;
}

ACL_API aclError aclrtStreamAbort(void* handle)
{
    Stream* stream = nullptr;
    RETURN_IF_ERROR(FindOwnStream("aclrtStreamAbort", handle, &stream));
    return Abort(stream->Device(), stream, 0);
}

ACL_API aclError aclrtSetStreamFailureMode(void* handle, uint64_t mode)
{
    Stream* stream = nullptr;
    RETURN_IF_ERROR(FindStream(handle, &stream));
    if (mode > 1) {
        return Fail(INVALID_PARAM, "aclrtSetStreamFailureMode: mode must be 0 or 1, got " + std::to_string(mode));
    }
    TheDevices().Shared().contexts[stream->context->number].stopsOnFailure.store(static_cast<uint32_t>(mode));
    return SUCCESS;
}

ACL_API aclError aclrtSynchronizeStreamWithTimeout(void* handle, int32_t milliseconds)
{
    Stream* stream = nullptr;
    RETURN_IF_ERROR(FindStream(handle, &stream));
    return Synchronize(stream, milliseconds);
}

ACL_API aclError aclrtSynchronizeStream(void* handle)
{
    return aclrtSynchronizeStreamWithTimeout(handle, -1);
}

ACL_API aclError aclrtStreamQuery(void* handle, int32_t* status)
{
    RETURN_IF_ERROR(CheckPointer("aclrtStreamQuery", "status", status));
    Stream* stream = nullptr;
    RETURN_IF_ERROR(FindStream(handle, &stream));
    const bool completed = HasCompleted(stream);
    *status = completed ? 0 : 1;
    return completed ? TakeError(stream) : static_cast<aclError>(SUCCESS);
}

ACL_API aclError aclrtStreamGetId(void* handle, uint32_t* number)
{
    return AskStream("aclrtStreamGetId", handle, number, &Stream::number);
}

ACL_API aclError aclrtStreamGetPriority(void* handle, uint32_t* priority)
{
    return AskStream("aclrtStreamGetPriority", handle, priority, &Stream::priority);
}

ACL_API aclError aclrtStreamGetFlags(void* handle, uint32_t* flags)
{
    return AskStream("aclrtStreamGetFlags", handle, flags, &Stream::flags);
}

ACL_API aclError aclrtSetStreamOverflowSwitch(void* handle, uint32_t value)
{
    Stream* stream = nullptr;
    RETURN_IF_ERROR(FindStream(handle, &stream));
    if (value > 1) {
        return Fail(INVALID_PARAM, "aclrtSetStreamOverflowSwitch: flag must be 0 or 1, got " + std::to_string(value));
    }
    stream->overflowSwitch = value;
    return SUCCESS;
}

ACL_API aclError aclrtGetStreamOverflowSwitch(void* handle, uint32_t* value)
{
    return AskStream("aclrtGetStreamOverflowSwitch", handle, value, &Stream::overflowSwitch);
}

ACL_API aclError aclrtDeviceGetStreamPriorityRange(int32_t* least, int32_t* greatest)
{
    RETURN_IF_ERROR(CheckPointer("aclrtDeviceGetStreamPriorityRange", "leastPriority", least));
    RETURN_IF_ERROR(CheckPointer("aclrtDeviceGetStreamPriorityRange", "greatestPriority", greatest));
    *least = 7;
    *greatest = 0;
    return SUCCESS;
}

ACL_API aclError aclrtSubscribeReport(uint64_t thread, void* handle)
{
    Stream* stream = nullptr;
    RETURN_IF_ERROR(FindStream(handle, &stream));
    return Subscribe(thread, stream);
}

ACL_API aclError aclrtUnSubscribeReport(uint64_t thread, void* handle)
{
    Stream* stream = nullptr;
    RETURN_IF_ERROR(FindStream(handle, &stream));
    return Unsubscribe(thread, stream);
}

ACL_API aclError aclrtLaunchCallback(void (*function)(void*), void* argument, int32_t blocks, void* handle)
{
    Stream* stream = nullptr;
    RETURN_IF_ERROR(FindStream(handle, &stream));
    if (blocks != 0 && blocks != 1) {
        return Fail(INVALID_PARAM,
                    "aclrtLaunchCallback: blockType must be an aclrtCallbackBlockType, got " + std::to_string(blocks));
    }
    return LaunchCallback(function, argument, blocks != 0, stream);
}

ACL_API aclError aclrtLaunchHostFunc(void* handle, void (*function)(void*), void* argument)
{
    Stream* stream = nullptr;
    RETURN_IF_ERROR(FindStream(handle, &stream));
    return LaunchHostFunction(function, argument, stream);
}

ACL_API aclError aclrtProcessReport(int32_t milliseconds)
{
    if (milliseconds < -1 || milliseconds == 0) {
        return Fail(INVALID_PARAM,
                    "aclrtProcessReport: timeout must be -1 or more than 0, got " + std::to_string(milliseconds));
    }
    return ProcessReport(milliseconds);
}

ACL_API aclError aclmdlRICaptureBegin(void* handle, int32_t)
{
    Stream* stream = nullptr;
    RETURN_IF_ERROR(FindOwnStream("aclmdlRICaptureBegin", handle, &stream));
    return BeginCapture(stream);
}

ACL_API aclError aclmdlRICaptureEnd(void* handle, void** model)
{
    RETURN_IF_ERROR(CheckPointer("aclmdlRICaptureEnd", "modelRI", model));
    Stream* stream = nullptr;
    RETURN_IF_ERROR(FindOwnStream("aclmdlRICaptureEnd", handle, &stream));
    Capture* capture = nullptr;
    RETURN_IF_ERROR(EndCapture(stream, &capture));
    *model = capture;
    return SUCCESS;
}

ACL_API aclError aclmdlRICaptureGetInfo(void* handle, int32_t* status, void** model)
{
    RETURN_IF_ERROR(CheckPointer("aclmdlRICaptureGetInfo", "status", status));
    Stream* stream = nullptr;
    RETURN_IF_ERROR(FindStream(handle, &stream));
    Capture* const capture = stream->capture.load();
    *status = capture != nullptr ? 1 : 0;
    if (model != nullptr) {
        *model = capture;
    }
    return SUCCESS;
}

ACL_API aclError aclmdlRIExecuteAsync(void* model, void* handle)
{
    Capture* const capture = FindCapture(model);
    if (capture == nullptr) {
        return Fail(RT_INVALID_HANDLE, "aclmdlRIExecuteAsync: modelRI was not captured, or is destroyed");
    }
    Stream* stream = nullptr;
    RETURN_IF_ERROR(FindStream(handle, &stream));
    return ReplayCapture(capture, stream);
}

ACL_API aclError aclmdlRIDestroy(void* model)
{
    Capture* const capture = FindCapture(model);
    if (capture == nullptr) {
        return Fail(RT_INVALID_HANDLE, "aclmdlRIDestroy: modelRI was not captured, or is destroyed");
    }
    DestroyCapture(capture);
    return SUCCESS;
}
