#include "runtime/streams.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "runtime/callbacks.h"
#include "runtime/captures.h"
#include "runtime/copies.h"
#include "runtime/tables.h"

namespace ms_ascend_ops {
namespace device {
namespace {

auto& streams = *new Table<Stream, MAX_STREAMS>;
std::atomic<void (*)(ExceptionInfo*)> exceptionCallback{nullptr};

// Says how long to wait yet; never 0 before the time is over.
class Deadline {
public:
    explicit Deadline(int64_t milliseconds) : milliseconds_(milliseconds), end_(Clock::now() + Span(milliseconds)) {}

    uint32_t Patience() const
    {
        if (milliseconds_ < 0) {
            return PATIENCE;
        }
        const int64_t left = std::chrono::duration_cast<std::chrono::microseconds>(end_ - Clock::now()).count();
        return left <= 0 ? 0 : static_cast<uint32_t>(std::min<int64_t>(PATIENCE, left / 1000 + 1));
    }

private:
    using Clock = std::chrono::steady_clock;
    using Span = std::chrono::milliseconds;

    int64_t milliseconds_;
    Clock::time_point end_;
};

ContextSlot& ContextOf(const Stream* stream)
{
    return TheDevices().Shared().contexts[stream->context->number];
}

void ClearSlot(const Stream* stream)
{
    StreamSlot& slot = SlotOf(stream);
    for (Word* word : {&slot.submitted, &slot.sleeping, &slot.completed.value, &slot.completed.waiters,
                       &slot.answered.value, &slot.answered.waiters, &slot.answer, &slot.error, &slot.aborted}) {
        word->store(0);
    }
    slot.read.store(0);
    slot.errorTask = 0;
    slot.clock = 0;
    slot.device = stream->Device();
    slot.context = stream->context->number;
    slot.running[0] = 0;
}

aclError AwaitRoom(Stream* stream, uint64_t bytes)
{
    StreamSlot& slot = SlotOf(stream);
    const auto fits = [&] { return stream->written + bytes - slot.read.load() <= RING_BYTES; };
    while (!fits()) {
        slot.completed.Wait(slot.completed.value.load() + 1,
                            [&] { return fits() || TheDevices().Ended(stream->Device()) ? 0 : PATIENCE; });
        if (TheDevices().Ended(stream->Device())) {
            return TheDevices().FailAsEnded(stream->Device());
        }
    }
    return SUCCESS;
}

void TellException(const Stream* stream, uint32_t task, aclError code)
{
    if (const auto callback = exceptionCallback.load()) {
        ExceptionInfo info{task, stream->number, static_cast<uint32_t>(syscall(SYS_gettid)), stream->Device(),
                           static_cast<uint32_t>(code)};
        callback(&info);
    }
}

void FreeStored(Stream* stream)
{
    std::vector<std::pair<uint32_t, void*>> done;
    {
        std::lock_guard<std::mutex> lock(stream->mutex);
        const auto waits = [stream](const auto& entry) { return !SlotOf(stream).completed.Reached(entry.first); };
        const auto middle = std::partition(stream->stored.begin(), stream->stored.end(), waits);
        done.assign(middle, stream->stored.end());
        stream->stored.erase(middle, stream->stored.end());
    }
    for (const auto& entry : done) {
        TheDevices().Memory(stream->Device()).Free(entry.second);
    }
}

}  // namespace

aclError CheckAlive(const Stream* stream)
{
    if (TheDevices().Ended(stream->Device())) {
        return TheDevices().FailAsEnded(stream->Device());
    }
    ContextSlot& context = ContextOf(stream);
    if (const auto code = static_cast<aclError>(context.failed.load())) {
        return Fail(code, context.text);
    }
    return SUCCESS;
}

StreamSlot& SlotOf(const Stream* stream)
{
    return TheDevices().Shared().streams[stream->number];
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
    made->overflowSwitch = 0;
    made->submitted = 0;
    made->written = 0;
    made->capture.store(nullptr);
    ClearSlot(made);
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
    static std::mutex mutex;
    std::lock_guard<std::mutex> lock(mutex);
    if (context->defaultStream == nullptr) {
        if (const aclError error = CreateStream(context, &context->defaultStream)) {
            return error;
        }
    }
    *stream = context->defaultStream;
    return SUCCESS;
}

aclError DestroyStream(Stream* stream)
{
    stream->capture.store(nullptr);
    const bool isNew = SlotOf(stream).error.load() != 0 || !HasCompleted(stream);
    aclError error = Synchronize(stream);
    // An error that was told before is no reason to keep the stream.
    error = isNew && !TheDevices().Ended(stream->Device()) ? error : static_cast<aclError>(SUCCESS);
    CommandHeader command{sizeof(command), CommandKind::STOP, 0, 0};
    if (!TheDevices().Ended(stream->Device())) {
        SlotOf(stream).aborted.store(0);
        SubmitAlways(stream, &command, sizeof(command), nullptr, 0);
        SlotOf(stream).completed.Wait(command.task,
                                      [stream] { return TheDevices().Ended(stream->Device()) ? 0 : PATIENCE; });
    }
    FreeStored(stream);
    ForgetSubscription(stream);
    stream->used = false;
    return error;
}

void ForgetStreams(uint32_t device)
{
    for (Stream& stream : streams.Entries()) {
        if (stream.used && stream.Device() == device) {
            ForgetSubscription(&stream);
            stream.stored.clear();
            stream.used = false;
        }
    }
}

void StopCapturing(const Capture* capture)
{
    for (Stream& stream : streams.Entries()) {
        if (stream.used && stream.capture.load() == capture) {
            stream.capture.store(nullptr);
        }
    }
}

aclError Submit(Stream* stream, CommandHeader* command, size_t size, const void* bytes, size_t byteCount)
{
    if (Capture* const capture = stream->capture.load()) {
        capture->Append(command, size, bytes, byteCount);
        return SUCCESS;
    }
    const aclError error = CheckAlive(stream);
    return error != SUCCESS ? error : SubmitAlways(stream, command, size, bytes, byteCount);
}

aclError SubmitAlways(Stream* stream, CommandHeader* command, size_t size, const void* bytes, size_t byteCount)
{
    StreamSlot& slot = SlotOf(stream);
    std::lock_guard<std::mutex> lock(stream->mutex);
    const auto total = static_cast<uint32_t>((size + byteCount + COMMAND_STEP - 1) / COMMAND_STEP * COMMAND_STEP);
    const auto place = static_cast<uint32_t>(stream->written % RING_BYTES);
    const uint32_t skipped = place + total > RING_BYTES ? RING_BYTES - place : 0;
    if (const aclError error = AwaitRoom(stream, skipped + total)) {
        return error;
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

aclError SubmitStored(Stream* stream, const void* call, size_t bytes)
{
    FreeStored(stream);
    void* address = nullptr;
    if (const aclError error = TheDevices().Memory(stream->Device()).Allocate(&address, bytes, 1, "a long call")) {
        return error;
    }
    const auto number = reinterpret_cast<uint64_t>(address);
    if (const aclError error = CopyNow(number, reinterpret_cast<uint64_t>(call), bytes)) {
        return error;
    }
    StoredCallCommand command{{0, CommandKind::STORED_CALL, 0, 0}, number, bytes};
    Capture* const capture = stream->capture.load();
    if (const aclError error = Submit(stream, &command.header, sizeof(command))) {
        return error;
    }
    if (capture != nullptr) {
        std::lock_guard<std::mutex> lock(capture->mutex);
        capture->stored.push_back(address);
        return SUCCESS;
    }
    std::lock_guard<std::mutex> lock(stream->mutex);
    stream->stored.emplace_back(command.header.task, address);
    return SUCCESS;
}

bool HasCompleted(Stream* stream)
{
    std::lock_guard<std::mutex> lock(stream->mutex);
    return SlotOf(stream).completed.Reached(stream->submitted) || TheDevices().Ended(stream->Device());
}

aclError TakeError(Stream* stream)
{
    StreamSlot& slot = SlotOf(stream);
    if (TheDevices().Ended(stream->Device())) {
        const aclError ended = TheDevices().FailAsEnded(stream->Device());
        constexpr uint32_t TOLD = UINT32_MAX;
        const uint32_t task = slot.completed.value.load() + 1;
        if (task - 1 != stream->submitted && slot.errorTask != TOLD) {
            slot.errorTask = TOLD;
            TellException(stream, task, ended);
        }
        return ended;
    }
    const auto code = static_cast<aclError>(slot.error.load());
    if (code == SUCCESS) {
        return slot.aborted.load() != 0 ? Fail(RT_STREAM_ABORT, "the stream's tasks were dropped by aclrtStreamAbort")
                                        : CheckAlive(stream);
    }
    const std::string text(slot.text, strnlen(slot.text, sizeof(slot.text)));
    const uint32_t task = slot.errorTask;
    slot.error.store(0);
    TellException(stream, task, code);
    return Fail(code, text);
}

aclError Synchronize(Stream* stream, int32_t milliseconds)
{
    if (stream->capture.load() != nullptr) {
        return Fail(RT_STREAM_CAPTURED, "a stream that is being captured cannot be synchronized");
    }
    const Deadline deadline(milliseconds);
    uint32_t task;
    {
        std::lock_guard<std::mutex> lock(stream->mutex);
        task = stream->submitted;
    }
    const auto patience = [&] { return TheDevices().Ended(stream->Device()) ? 0 : deadline.Patience(); };
    if (!SlotOf(stream).completed.Wait(task, patience) && !TheDevices().Ended(stream->Device())) {
        return Fail(RT_STREAM_SYNC_TIMEOUT,
                    "the stream has not finished within " + std::to_string(milliseconds) + " ms");
    }
    return TakeError(stream);
}

aclError SynchronizeDevice(uint32_t device, int32_t milliseconds)
{
    aclError first = SUCCESS;
    std::string text;
    for (Stream& stream : streams.Entries()) {
        if (!stream.used || stream.Device() != device || stream.capture.load() != nullptr) {
            continue;
        }
        const aclError error = Synchronize(&stream, milliseconds);
        if (first == SUCCESS && error != SUCCESS) {
            first = error;
            text = LastErrorText();
        }
    }
    return first == SUCCESS ? first : Fail(first, text);
}

aclError Abort(uint32_t device, Stream* only, uint32_t milliseconds)
{
    const Deadline deadline(milliseconds == 0 ? -1 : static_cast<int64_t>(milliseconds));
    for (Stream& stream : streams.Entries()) {
        if (stream.used && stream.Device() == device && (only == nullptr || only == &stream)) {
            SlotOf(&stream).aborted.store(1);
        }
    }
    for (Stream& stream : streams.Entries()) {
        if (!stream.used || stream.Device() != device || (only != nullptr && only != &stream)) {
            continue;
        }
        const auto patience = [&] { return TheDevices().Ended(device) ? 0 : deadline.Patience(); };
        if (!SlotOf(&stream).completed.Wait(stream.submitted, patience)) {
            return Fail(RT_WAIT_TIMEOUT, "a task still runs after " + std::to_string(milliseconds) + " ms");
        }
        if (only == nullptr) {
            SlotOf(&stream).aborted.store(0);
        }
    }
    return SUCCESS;
}

aclError AwaitEvent(const Event* event, int32_t milliseconds)
{
    const Deadline deadline(milliseconds);
    EventSlot& slot = SlotOf(event);
    const uint32_t recorded = event->recorded.load();
    const auto patience = [&] { return TheDevices().Ended(slot.device) ? 0 : deadline.Patience(); };
    if (recorded == event->created || slot.done.Wait(recorded, patience)) {
        return SUCCESS;
    }
    return TheDevices().Ended(slot.device) ? TheDevices().FailAsEnded(slot.device)
                                           : Fail(RT_EVENT_SYNC_TIMEOUT, "the event was not recorded within " +
                                                                             std::to_string(milliseconds) + " ms");
}

void SetExceptionCallback(void (*callback)(ExceptionInfo*))
{
    exceptionCallback.store(callback);
}

}  // namespace device
}  // namespace ms_ascend_ops
