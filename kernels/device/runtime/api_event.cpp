/*!
 * Implements ACL's events.
 */
#include "runtime/acl_api.h"

using namespace ms_ascend_ops::device;

namespace {

aclError CreateEventWith(void** event, uint32_t flags, bool extended)
{
    RETURN_IF_ERROR(CheckPointer("aclrtCreateEvent", "event", event));
    RETURN_IF_ERROR(TheDevices().Open());
    Event* made = nullptr;
    RETURN_IF_ERROR(CreateEvent(&made, flags, extended));
    *event = made;
    return SUCCESS;
}

// Functions that events of aclrtCreateEventExWithFlag do not have.
aclError FindPlainEvent(const char* function, void* handle, Event** event)
{
    RETURN_IF_ERROR(FindEvent(handle, event));
    return (*event)->extended ? Fail(RT_FEATURE_NOT_SUPPORT,
                                     std::string(function) + " does not support events of aclrtCreateEventExWithFlag")
                              : static_cast<aclError>(SUCCESS);
}

// An event with the time of its last record.
aclError FindTime(const char* function, void* handle, uint64_t* nanoseconds)
{
    Event* event = nullptr;
    RETURN_IF_ERROR(FindEvent(handle, &event));
    const std::string name(function);
    if ((event->flags & EVENT_TIME_LINE) == 0) {
        return Fail(RT_EVENT_TIMESTAMP_INVALID, name + ": the event was made without ACL_EVENT_TIME_LINE");
    }
    if (!event->WasRecorded()) {
        return Fail(RT_INTERNAL_ERROR, name + ": the event was not recorded (aclrtRecordEvent)");
    }
    if (!IsDone(event)) {
        return Fail(RT_EVENT_TIMESTAMP_INVALID, name + ": the event's stream has not come to it yet");
    }
    *nanoseconds = TheSettings().trace.empty() ? SlotOf(event).nanoseconds : SlotOf(event).clock;
    return SUCCESS;
}

}  // namespace

ACL_API aclError aclrtCreateEvent(void** event)
{
    return CreateEventWith(event, EVENT_SYNC | EVENT_PROGRESS | EVENT_TIME_LINE, false);
}

ACL_API aclError aclrtCreateEventWithFlag(void** event, uint32_t flags)
{
    return CreateEventWith(event, flags, false);
}

ACL_API aclError aclrtCreateEventExWithFlag(void** event, uint32_t flags)
{
    return CreateEventWith(event, flags, true);
}

ACL_API aclError aclrtDestroyEvent(void* handle)
{
    Event* event = nullptr;
    RETURN_IF_ERROR(FindEvent(handle, &event));
    DestroyEvent(event);
    return SUCCESS;
}

ACL_API aclError aclrtRecordEvent(void* handle, void* streamHandle)
{
    Event* event = nullptr;
    Stream* stream = nullptr;
    RETURN_IF_ERROR(FindEvent(handle, &event));
    RETURN_IF_ERROR(FindStream(streamHandle, &stream));
    return RecordEvent(event, stream);
}

ACL_API aclError aclrtStreamWaitEvent(void* streamHandle, void* handle)
{
    Event* event = nullptr;
    Stream* stream = nullptr;
    RETURN_IF_ERROR(FindEvent(handle, &event));
    RETURN_IF_ERROR(FindStream(streamHandle, &stream));
    if (event->extended && (event->flags & EVENT_SYNC) == 0) {
        return Fail(RT_PARAM_INVALID, "aclrtStreamWaitEvent: the event was made without ACL_EVENT_SYNC");
    }
    return WaitEvent(stream, event);
}

ACL_API aclError aclrtStreamWaitEventWithTimeout(void* stream, void* event, int32_t)
{
    return aclrtStreamWaitEvent(stream, event);
}

// Who waits, waits for a record by its number: there is nothing to reset.
ACL_API aclError aclrtResetEvent(void* handle, void* streamHandle)
{
    Event* event = nullptr;
    Stream* stream = nullptr;
    RETURN_IF_ERROR(FindPlainEvent("aclrtResetEvent", handle, &event));
    return FindStream(streamHandle, &stream);
}

ACL_API aclError aclrtSynchronizeEventWithTimeout(void* handle, int32_t milliseconds)
{
    Event* event = nullptr;
    RETURN_IF_ERROR(FindEvent(handle, &event));
    return AwaitEvent(event, milliseconds);
}

ACL_API aclError aclrtSynchronizeEvent(void* handle)
{
    return aclrtSynchronizeEventWithTimeout(handle, -1);
}

ACL_API aclError aclrtQueryEventStatus(void* handle, int32_t* status)
{
    RETURN_IF_ERROR(CheckPointer("aclrtQueryEventStatus", "status", status));
    Event* event = nullptr;
    RETURN_IF_ERROR(FindEvent(handle, &event));
    if (!IsDone(event) && TheDevices().Ended(SlotOf(event).device)) {
        return TheDevices().FailAsEnded(SlotOf(event).device);
    }
    *status = IsDone(event) && (event->WasRecorded() || event->extended) ? 1 : 0;
    return SUCCESS;
}

ACL_API aclError aclrtQueryEvent(void* handle, int32_t* status)
{
    RETURN_IF_ERROR(CheckPointer("aclrtQueryEvent", "status", status));
    Event* event = nullptr;
    RETURN_IF_ERROR(FindPlainEvent("aclrtQueryEvent", handle, &event));
    *status = IsDone(event) ? 0 : 1;
    return SUCCESS;
}

ACL_API aclError aclrtQueryEventWaitStatus(void* handle, int32_t* status)
{
    RETURN_IF_ERROR(CheckPointer("aclrtQueryEventWaitStatus", "status", status));
    Event* event = nullptr;
    RETURN_IF_ERROR(FindPlainEvent("aclrtQueryEventWaitStatus", handle, &event));
    *status = IsDone(event) ? 0 : 1;
    return SUCCESS;
}

ACL_API aclError aclrtEventElapsedTime(float* milliseconds, void* startHandle, void* endHandle)
{
    RETURN_IF_ERROR(CheckPointer("aclrtEventElapsedTime", "ms", milliseconds));
    uint64_t start = 0;
    uint64_t end = 0;
    RETURN_IF_ERROR(FindTime("aclrtEventElapsedTime", startHandle, &start));
    RETURN_IF_ERROR(FindTime("aclrtEventElapsedTime", endHandle, &end));
    *milliseconds = static_cast<float>(static_cast<double>(static_cast<int64_t>(end - start)) * 1e-6);
    return SUCCESS;
}

ACL_API aclError aclrtEventGetTimestamp(void* handle, uint64_t* microseconds)
{
    RETURN_IF_ERROR(CheckPointer("aclrtEventGetTimestamp", "timestamp", microseconds));
    uint64_t nanoseconds = 0;
    RETURN_IF_ERROR(FindTime("aclrtEventGetTimestamp", handle, &nanoseconds));
    *microseconds = nanoseconds / 1000;
    return SUCCESS;
}
