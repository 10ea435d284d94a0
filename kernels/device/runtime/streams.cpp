#include "runtime/streams.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include "runtime/callbacks.h"
#include "runtime/copies.h"

namespace ms_ascend_ops {
namespace device {
namespace {

// Entries of a table by their addresses.
template <typename T, size_t COUNT>
class Table {
public:
    T* Find(void* handle)
    {
        const auto offset = static_cast<size_t>(static_cast<char*>(handle) - reinterpret_cast<char*>(entries_.data()));
        const bool inside = offset < sizeof(entries_) && offset % sizeof(T) == 0;
        return inside && entries_[offset / sizeof(T)].used ? &entries_[offset / sizeof(T)] : nullptr;
    }
    // Null: all are in use. An entry that was freed comes again as late as possible.
    T* Take()
    {
        std::lock_guard<std::mutex> lock(mutex_);
        for (size_t tried = 0; tried < COUNT; ++tried) {
            const size_t number = next_++ % COUNT;
            if (!entries_[number].used) {
                entries_[number].used = true;
                return &entries_[number];
            }
        }
        return nullptr;
    }
    uint32_t NumberOf(const T* entry) const { return static_cast<uint32_t>(entry - entries_.data()); }
    std::array<T, COUNT>& Entries() { return entries_; }

private:
    std::array<T, COUNT> entries_;
    size_t next_ = 0;
    std::mutex mutex_;
};

// They are never destroyed: threads may use them until the program has ended.
auto& contexts = *new Table<Context, MAX_CONTEXTS>;
auto& streams = *new Table<Stream, MAX_STREAMS>;
auto& events = *new Table<Event, MAX_EVENTS>;
std::mutex contextMutex;
std::array<Context*, MAX_DEVICES> primary{};
thread_local Context* current = nullptr;

StreamSlot& SlotOf(const Stream* stream)
{
    return TheDevices().Shared().streams[stream->number];
}

}  // namespace

Context* ContextOf(void* handle)
{
    return contexts.Find(handle);
}

aclError CurrentContext(Context** context)
{
    if (current == nullptr || !current->used) {
        return Fail(RT_CONTEXT_NULL, "this thread has no context; call aclrtSetDevice or aclrtSetCurrentContext");
    }
    *context = current;
    return SUCCESS;
}

aclError CreateContext(uint32_t device, Context** context)
{
    Context* const made = contexts.Take();
    if (made == nullptr) {
        return Fail(RT_INTERNAL_ERROR, "there are already " + std::to_string(MAX_CONTEXTS) + " contexts");
    }
    made->device = device;
    made->primary = false;
    made->defaultStream = nullptr;
    *context = made;
    return SUCCESS;
}

aclError SetCurrentDevice(int32_t device)
{
    if (const aclError error = TheDevices().CheckNumber(device)) {
        return error;
    }
    const auto number = static_cast<uint32_t>(device);
    if (const aclError error = TheDevices().Start(number)) {
        return error;
    }
    std::lock_guard<std::mutex> lock(contextMutex);
    if (primary[number] == nullptr) {
        if (const aclError error = CreateContext(number, &primary[number])) {
            return error;
        }
        primary[number]->primary = true;
    }
    current = primary[number];
    return SUCCESS;
}

void SetCurrentContext(Context* context)
{
    current = context;
}

aclError CreateStream(Context* context, Stream** stream)
{
    Stream* const made = streams.Take();
    if (made == nullptr) {
        return Fail(RT_NO_STREAM_RESOURCE, "there are already " + std::to_string(MAX_STREAMS) + " streams");
    }
    made->number = streams.NumberOf(made);
    made->context = context;
    made->flags = 0;
    made->priority = 0;
    made->submitted = 0;
    made->written = 0;
    StreamSlot& slot = SlotOf(made);
    for (Word* word :
         {&slot.submitted, &slot.sleeping, &slot.completed.value, &slot.completed.waiters, &slot.answered.value,
          &slot.answered.waiters, &slot.answer, &slot.error, &slot.stopsOnFailure, &slot.failed, &slot.aborted}) {
        word->store(0);
    }
    slot.read.store(0);
    slot.clock = 0;
    slot.device = context->device;
    slot.running[0] = 0;
    ControlRequest request{};
    request.kind = ControlKind::START_STREAM;
    request.stream = made->number;
    if (const aclError error = TheDevices().Control(context->device, request, false)) {
        made->used = false;
        return error;
    }
    *stream = made;
    return SUCCESS;
}

aclError FindStream(void* handle, Stream** stream)
{
    if (handle != nullptr) {
        *stream = streams.Find(handle);
        return *stream != nullptr ? static_cast<aclError>(SUCCESS)
                                  : Fail(RT_INVALID_HANDLE, "the stream was not created, or is destroyed");
    }
    Context* context = nullptr;
    if (const aclError error = CurrentContext(&context)) {
        return error;
    }
    {
        std::lock_guard<std::mutex> lock(contextMutex);
        if (context->defaultStream == nullptr) {
            if (const aclError error = CreateStream(context, &context->defaultStream)) {
                return error;
            }
        }
    }
    *stream = context->defaultStream;
    return SUCCESS;
}

aclError DestroyStream(Stream* stream)
{
    CommandHeader command{sizeof(command), CommandKind::STOP, 0, 0};
    aclError error = Submit(stream, &command, sizeof(command));
    if (error == SUCCESS) {
        error = Synchronize(stream);
    }
    ForgetSubscription(stream);
    stream->used = false;
    return error;
}

aclError Submit(Stream* stream, CommandHeader* command, size_t size, const void* bytes, size_t byteCount)
{
    Devices& devices = TheDevices();
    StreamSlot& slot = SlotOf(stream);
    std::lock_guard<std::mutex> lock(stream->mutex);
    const auto ended = [&devices, stream] { return devices.Ended(stream->Device()); };
    if (ended()) {
        return devices.FailAsEnded(stream->Device());
    }
    const auto total = static_cast<uint32_t>((size + byteCount + COMMAND_STEP - 1) / COMMAND_STEP * COMMAND_STEP);
    const auto place = static_cast<uint32_t>(stream->written % RING_BYTES);
    const uint32_t skipped = place + total > RING_BYTES ? RING_BYTES - place : 0;
    while (stream->written + skipped + total - slot.read.load() > RING_BYTES) {
        if (!slot.completed.Wait(
                slot.completed.value.load() + 1,
                [&] { return ended() || stream->written + skipped + total - slot.read.load() <= RING_BYTES; }) &&
            ended()) {
            return devices.FailAsEnded(stream->Device());
        }
    }
    if (skipped > 0) {
        const CommandHeader skip{skipped, CommandKind::SKIP, 0, 0};
        std::memcpy(slot.ring + place, &skip, sizeof(skip));
        stream->written += skipped;
    }
    command->bytes = total;
    command->task = ++stream->submitted;
    uint8_t* const at = slot.ring + stream->written % RING_BYTES;
    std::memcpy(at, command, size);
    if (byteCount > 0) {
        std::memcpy(at + size, bytes, byteCount);
    }
    stream->written += total;
    slot.submitted.store(stream->submitted, std::memory_order_seq_cst);
    if (slot.sleeping.load(std::memory_order_seq_cst) != 0) {
        FutexWake(slot.submitted);
    }
    return SUCCESS;
}

aclError TakeError(Stream* stream)
{
    StreamSlot& slot = SlotOf(stream);
    const auto code = static_cast<aclError>(slot.error.load());
    if (code == SUCCESS) {
        return SUCCESS;
    }
    const std::string text(slot.text, strnlen(slot.text, sizeof(slot.text)));
    if (slot.failed.load() == 0) {
        slot.error.store(0);
    }
    return Fail(code, text);
}

bool HasCompleted(Stream* stream)
{
    std::lock_guard<std::mutex> lock(stream->mutex);
    return SlotOf(stream).completed.Reached(stream->submitted) || TheDevices().Ended(stream->Device());
}

aclError SubmitStored(Stream* stream, const void* call, size_t bytes)
{
    DeviceMemory& memory = TheDevices().Memory(stream->Device());
    std::vector<std::pair<uint32_t, void*>> done;
    {
        std::lock_guard<std::mutex> lock(stream->mutex);
        const auto waits = [stream](const auto& entry) { return !SlotOf(stream).completed.Reached(entry.first); };
        const auto middle = std::partition(stream->stored.begin(), stream->stored.end(), waits);
        done.assign(middle, stream->stored.end());
        stream->stored.erase(middle, stream->stored.end());
    }
    for (const auto& entry : done) {
        memory.Free(entry.second);
    }
    void* address = nullptr;
    if (const aclError error = memory.Allocate(&address, bytes, 1, "a long call")) {
        return error;
    }
    const auto number = reinterpret_cast<uint64_t>(address);
    if (const aclError error = CopyNow(number, reinterpret_cast<uint64_t>(call), bytes)) {
        return error;
    }
    StoredCallCommand command{{0, CommandKind::STORED_CALL, 0, 0}, number, bytes};
    if (const aclError error = Submit(stream, &command.header, sizeof(command))) {
        return error;
    }
    std::lock_guard<std::mutex> lock(stream->mutex);
    stream->stored.emplace_back(command.header.task, address);
    return SUCCESS;
}

aclError AwaitEvent(const Event* event, int32_t milliseconds)
{
    using Clock = std::chrono::steady_clock;
    EventSlot& slot = TheDevices().Shared().events[event->number];
    const auto limit = Clock::now() + std::chrono::milliseconds(milliseconds);
    const uint32_t recorded = event->recorded.load();
    const auto stop = [&] { return TheDevices().Ended(slot.device) || (milliseconds >= 0 && Clock::now() >= limit); };
    if (slot.done.Wait(recorded, stop)) {
        return SUCCESS;
    }
    return TheDevices().Ended(slot.device) ? TheDevices().FailAsEnded(slot.device)
                                           : Fail(RT_EVENT_SYNC_TIMEOUT, "the event was not recorded within " +
                                                                             std::to_string(milliseconds) + " ms");
}

aclError Synchronize(Stream* stream, int32_t milliseconds)
{
    using Clock = std::chrono::steady_clock;
    Devices& devices = TheDevices();
    const auto limit = Clock::now() + std::chrono::milliseconds(milliseconds);
    uint32_t task;
    {
        std::lock_guard<std::mutex> lock(stream->mutex);
        task = stream->submitted;
    }
    const auto stop = [&] { return devices.Ended(stream->Device()) || (milliseconds >= 0 && Clock::now() >= limit); };
    if (!SlotOf(stream).completed.Wait(task, stop)) {
        return devices.Ended(stream->Device()) ? devices.FailAsEnded(stream->Device())
                                               : Fail(RT_STREAM_SYNC_TIMEOUT, "the stream has not finished within " +
                                                                                  std::to_string(milliseconds) + " ms");
    }
    return TakeError(stream);
}

aclError SynchronizeDevice(uint32_t device, int32_t milliseconds)
{
    aclError first = SUCCESS;
    for (Stream& stream : streams.Entries()) {
        if (stream.used && stream.Device() == device) {
            const aclError error = Synchronize(&stream, milliseconds);
            first = first == SUCCESS ? error : first;
        }
    }
    return first;
}

aclError FindEvent(void* handle, Event** event)
{
    *event = events.Find(handle);
    return *event != nullptr ? static_cast<aclError>(SUCCESS)
                             : Fail(RT_INVALID_HANDLE, "the event was not created, or is destroyed");
}

aclError CreateEvent(Event** event, uint32_t flags)
{
    *event = events.Take();
    if (*event == nullptr) {
        return Fail(RT_NO_EVENT_RESOURCE, "there are already " + std::to_string(MAX_EVENTS) + " events");
    }
    (*event)->number = events.NumberOf(*event);
    (*event)->flags = flags;
    (*event)->recorded = TheDevices().Shared().events[(*event)->number].done.value.load();
    (*event)->created = (*event)->recorded.load();
    return SUCCESS;
}

void ForgetDevice(uint32_t device)
{
    for (Stream& stream : streams.Entries()) {
        if (stream.used && stream.Device() == device) {
            ForgetSubscription(&stream);
            stream.used = false;
        }
    }
    std::lock_guard<std::mutex> lock(contextMutex);
    for (Context& context : contexts.Entries()) {
        if (context.used && context.device == device) {
            context.used = false;
        }
    }
    primary[device] = nullptr;
}

}  // namespace device
}  // namespace ms_ascend_ops
