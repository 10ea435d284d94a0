#include <algorithm>

#include "runtime/captures.h"
#include "runtime/streams.h"
#include "runtime/tables.h"

namespace ms_ascend_ops {
namespace device {
namespace {

auto& events = *new Table<Event, MAX_EVENTS>;

// The slots of the session that events have. One whose last record is still to come waits before it is used again.
class Slots {
public:
    bool Take(uint32_t* number)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        const auto waits = [](uint32_t slot) { return !IsDone(slot); };
        const auto done = std::partition(given_.begin(), given_.end(), waits);
        if (done != given_.end()) {
            *number = given_.back();
            given_.pop_back();
            return true;
        }
        *number = next_;
        return next_ < MAX_EVENTS && (++next_, true);
    }
    void Give(uint32_t number)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        given_.push_back(number);
    }
    static std::atomic<uint32_t>& Recorded(uint32_t number) { return recorded_[number]; }
    static bool IsDone(uint32_t number)
    {
        const EventSlot& slot = TheDevices().Shared().events[number];
        return slot.done.Reached(recorded_[number].load()) || TheDevices().Ended(slot.device);
    }

private:
    static std::array<std::atomic<uint32_t>, MAX_EVENTS> recorded_;  // the number of the last record, by slot

    std::mutex mutex_;
    std::vector<uint32_t> given_;
    uint32_t next_ = 0;
};

std::array<std::atomic<uint32_t>, MAX_EVENTS> Slots::recorded_;
auto& slots = *new Slots;

aclError TakeSlot(Event* event)
{
    if (!slots.Take(&event->number)) {
        return Fail(RT_NO_EVENT_RESOURCE, "there are already " + std::to_string(MAX_EVENTS) + " events");
    }
    event->created = Slots::Recorded(event->number).load();
    event->recorded.store(event->created);
    return SUCCESS;
}

}  // namespace

EventSlot& SlotOf(const Event* event)
{
    return TheDevices().Shared().events[event->number];
}

aclError FindEvent(void* handle, Event** event)
{
    *event = events.Find(handle);
    return *event != nullptr ? static_cast<aclError>(SUCCESS)
                             : Fail(RT_INVALID_HANDLE, "the event was not created, or is destroyed");
}

aclError CreateEvent(Event** event, uint32_t flags, bool extended)
{
    constexpr uint32_t KNOWN = 0x6B;  // also of events for other processes, and of those outside of captures
    if ((flags & ~KNOWN) != 0) {
        return Fail(RT_PARAM_INVALID, "an event: flag must be made of the flags of ACL_EVENT, got " + Hex(flags));
    }
    Event* const made = events.Take();
    if (made == nullptr) {
        return Fail(RT_NO_EVENT_RESOURCE, "there are already " + std::to_string(MAX_EVENTS) + " events");
    }
    made->flags = flags;
    made->extended = extended;
    made->stream = nullptr;
    made->capture.store(nullptr);
    if (const aclError error = TakeSlot(made)) {
        made->used = false;
        return error;
    }
    *event = made;
    return SUCCESS;
}

void DestroyEvent(Event* event)
{
    slots.Give(event->number);
    event->used = false;
}

aclError RecordEvent(Event* event, Stream* stream)
{
    event->capture.store(stream->capture.load());
    if (event->capture.load() != nullptr) {
        return SUCCESS;
    }
    // Who waits for the record of another stream waits for that one.
    if (event->stream != stream && event->WasRecorded() && !Slots::IsDone(event->number)) {
        slots.Give(event->number);
        if (const aclError error = TakeSlot(event)) {
            return error;
        }
    }
    event->stream = stream;
    SlotOf(event).device = stream->Device();
    EventCommand command{{0, CommandKind::RECORD, 0, 0}, event->number, event->recorded.load() + 1};
    if (const aclError error = Submit(stream, &command.header, sizeof(command))) {
        return error;
    }
    event->recorded.store(command.number);
    Slots::Recorded(event->number).store(command.number);
    return SUCCESS;
}

aclError WaitEvent(Stream* stream, Event* event)
{
    if (Capture* const capture = event->capture.load()) {
        if (stream->capture.load() == nullptr && capture->origin->capture.load() == capture) {
            stream->capture.store(capture);
        }
        return SUCCESS;
    }
    if (!event->WasRecorded()) {
        return SUCCESS;
    }
    EventCommand command{{0, CommandKind::WAIT, 0, 0}, event->number, event->recorded.load()};
    return Submit(stream, &command.header, sizeof(command));
}

bool IsDone(const Event* event)
{
    return SlotOf(event).done.Reached(event->recorded.load());
}

}  // namespace device
}  // namespace ms_ascend_ops
