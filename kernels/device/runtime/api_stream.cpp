/*!
 * ACL: streams, events, callbacks.
 */
#include "runtime/acl_api.h"

using namespace ms_ascend_ops::device;

namespace {

aclError CreateWith(void** stream, uint32_t priority, uint32_t flags)
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

EventSlot& SlotOf(const Event* event)
{
    return TheDevices().Shared().events[event->number];
}

aclError SynchronizeEvent(void* handle, int32_t milliseconds)
{
    Event* event = nullptr;
    RETURN_IF_ERROR(FindEvent(handle, &event));
    return AwaitEvent(event, milliseconds);
}

}  // namespace

ACL_API aclError aclrtCreateStream(void** stream)
{
    return CreateWith(stream, 0, 0);
}

ACL_API aclError aclrtCreateStreamWithConfig(void** stream, uint32_t priority, uint32_t flags)
{
    return CreateWith(stream, priority, flags);
}

ACL_API aclError aclrtDestroyStream(void* handle)
{
    RETURN_IF_ERROR(CheckPointer("aclrtDestroyStream", "stream", handle));
    Stream* stream = nullptr;
    RETURN_IF_ERROR(FindStream(handle, &stream));
    return DestroyStream(stream);
}

ACL_API aclError aclrtDestroyStreamForce(void* handle)
{
    RETURN_IF_ERROR(CheckPointer("aclrtDestroyStreamForce", "stream", handle));
    Stream* stream = nullptr;
    RETURN_IF_ERROR(FindStream(handle, &stream));
    TheDevices().Shared().streams[stream->number].aborted.store(1);
    return DestroyStream(stream);
}

ACL_API aclError aclrtSetStreamFailureMode(void* handle, uint64_t mode)
{
    RETURN_IF_ERROR(CheckPointer("aclrtSetStreamFailureMode", "stream", handle));
    Stream* stream = nullptr;
    RETURN_IF_ERROR(FindStream(handle, &stream));
    if (mode > 1) {
        return Fail(INVALID_PARAM, "aclrtSetStreamFailureMode: mode must be 0 or 1, got " + std::to_string(mode));
    }
    TheDevices().Shared().streams[stream->number].stopsOnFailure.store(static_cast<uint32_t>(mode));
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

ACL_API aclError aclrtStreamGetId(void* handle, int32_t* number)
{
    RETURN_IF_ERROR(CheckPointer("aclrtStreamGetId", "streamId", number));
    Stream* stream = nullptr;
    RETURN_IF_ERROR(FindStream(handle, &stream));
    *number = static_cast<int32_t>(stream->number);
    return SUCCESS;
}

ACL_API aclError aclrtDeviceGetStreamPriorityRange(int32_t* least, int32_t* greatest)
{
    RETURN_IF_ERROR(CheckPointer("aclrtDeviceGetStreamPriorityRange", "leastPriority", least));
    RETURN_IF_ERROR(CheckPointer("aclrtDeviceGetStreamPriorityRange", "greatestPriority", greatest));
    *least = 7;
    *greatest = 0;
    return SUCCESS;
}

ACL_API aclError aclrtCreateEventExWithFlag(void** event, uint32_t flags)
{
    RETURN_IF_ERROR(CheckPointer("aclrtCreateEvent", "event", event));
    RETURN_IF_ERROR(TheDevices().Open());
    Event* made = nullptr;
    RETURN_IF_ERROR(CreateEvent(&made, flags));
    *event = made;
    return SUCCESS;
}

ACL_API aclError aclrtCreateEventWithFlag(void** event, uint32_t flags)
{
    return aclrtCreateEventExWithFlag(event, flags);
}

ACL_API aclError aclrtCreateEvent(void** event)
{
    constexpr uint32_t ALL = 0xB;  // synchronisation, progress of the stream, time line
    return aclrtCreateEventExWithFlag(event, ALL);
}

ACL_API aclError aclrtDestroyEvent(void* handle)
{
    Event* event = nullptr;
    RETURN_IF_ERROR(FindEvent(handle, &event));
    event->used = false;
    return SUCCESS;
}

ACL_API aclError aclrtRecordEvent(void* handle, void* streamHandle)
{
    Event* event = nullptr;
    Stream* stream = nullptr;
    RETURN_IF_ERROR(FindEvent(handle, &event));
    RETURN_IF_ERROR(FindStream(streamHandle, &stream));
    SlotOf(event).device = stream->Device();
    EventCommand command{{0, CommandKind::RECORD, 0, 0}, event->number, ++event->recorded};
    return Submit(stream, &command.header, sizeof(command));
}

ACL_API aclError aclrtStreamWaitEvent(void* streamHandle, void* handle)
{
    Event* event = nullptr;
    Stream* stream = nullptr;
    RETURN_IF_ERROR(FindEvent(handle, &event));
    RETURN_IF_ERROR(FindStream(streamHandle, &stream));
    EventCommand command{{0, CommandKind::WAIT, 0, 0}, event->number, event->recorded.load()};
    return Submit(stream, &command.header, sizeof(command));
}

ACL_API aclError aclrtStreamWaitEventWithTimeout(void* stream, void* event, int32_t)
{
    return aclrtStreamWaitEvent(stream, event);
}

// A record has a number, and who waits, waits for the last one: there is nothing to reset.
ACL_API aclError aclrtResetEvent(void* handle, void* streamHandle)
{
    Event* event = nullptr;
    Stream* stream = nullptr;
    RETURN_IF_ERROR(FindEvent(handle, &event));
    return FindStream(streamHandle, &stream);
}

ACL_API aclError aclrtSynchronizeEvent(void* handle)
{
    return SynchronizeEvent(handle, -1);
}

ACL_API aclError aclrtSynchronizeEventWithTimeout(void* handle, int32_t milliseconds)
{
    return SynchronizeEvent(handle, milliseconds);
}

ACL_API aclError aclrtQueryEventStatus(void* handle, int32_t* status)
{
    RETURN_IF_ERROR(CheckPointer("aclrtQueryEventStatus", "status", status));
    Event* event = nullptr;
    RETURN_IF_ERROR(FindEvent(handle, &event));
    const uint32_t recorded = event->recorded.load();
    *status = recorded != event->created && SlotOf(event).done.Reached(recorded) ? 1 : 0;
    return SUCCESS;
}

ACL_API aclError aclrtQueryEvent(void* handle, int32_t* status)
{
    RETURN_IF_ERROR(aclrtQueryEventStatus(handle, status));
    *status = *status == 1 ? 0 : 1;  // ACL_EVENT_STATUS_COMPLETE is 0
    return SUCCESS;
}

ACL_API aclError aclrtQueryEventWaitStatus(void* handle, int32_t* status)
{
    return aclrtQueryEvent(handle, status);
}

ACL_API aclError aclrtEventElapsedTime(float* milliseconds, void* startHandle, void* endHandle)
{
    RETURN_IF_ERROR(CheckPointer("aclrtEventElapsedTime", "ms", milliseconds));
    Event* start = nullptr;
    Event* end = nullptr;
    RETURN_IF_ERROR(FindEvent(startHandle, &start));
    RETURN_IF_ERROR(FindEvent(endHandle, &end));
    for (const Event* event : {start, end}) {
        const uint32_t recorded = event->recorded.load();
        if (recorded == event->created || !SlotOf(event).done.Reached(recorded)) {
            return Fail(RT_EVENT_TIMESTAMP_INVALID, "aclrtEventElapsedTime: an event was not recorded yet");
        }
    }
    const int64_t nanoseconds = static_cast<int64_t>(SlotOf(end).nanoseconds - SlotOf(start).nanoseconds);
    *milliseconds = static_cast<float>(nanoseconds) * 1e-6F;
    return SUCCESS;
}

ACL_API aclError aclrtEventGetTimestamp(void* handle, uint64_t* microseconds)
{
    RETURN_IF_ERROR(CheckPointer("aclrtEventGetTimestamp", "timestamp", microseconds));
    Event* event = nullptr;
    RETURN_IF_ERROR(FindEvent(handle, &event));
    const uint32_t recorded = event->recorded.load();
    if (recorded == event->created || !SlotOf(event).done.Reached(recorded)) {
        return Fail(RT_EVENT_TIMESTAMP_INVALID, "aclrtEventGetTimestamp: the event was not recorded yet");
    }
    *microseconds = SlotOf(event).nanoseconds / 1000;
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
    return ProcessReport(milliseconds);
}
