/*!
 * Declares streams and events of the host's side.
 */
#ifndef MS_ASCEND_OPS_DEVICE_RUNTIME_STREAMS_H
#define MS_ASCEND_OPS_DEVICE_RUNTIME_STREAMS_H

#include <utility>
#include <vector>

#include "runtime/contexts.h"

namespace ms_ascend_ops {
namespace device {

struct Capture;

struct Stream {
    std::atomic<bool> used{false};
    uint32_t number = 0;
    Context* context = nullptr;
    uint32_t flags = 0;
    uint32_t priority = 0;
    uint32_t overflowSwitch = 0;  // for its user to read: floats here become infinite and NaN, as IEEE 754 says
    std::mutex mutex;             // of what follows
    uint32_t submitted = 0;
    uint64_t written = 0;                            // bytes of the ring
    std::vector<std::pair<uint32_t, void*>> stored;  // calls in device memory, by their tasks
    std::atomic<Capture*> capture{nullptr};          // takes what is submitted (captures.h)

    uint32_t Device() const { return context->device; }
};

// The flags of aclrtCreateEventWithFlag.
constexpr uint32_t EVENT_SYNC = 1;
constexpr uint32_t EVENT_PROGRESS = 2;
constexpr uint32_t EVENT_TIME_LINE = 8;

struct Event {
    std::atomic<bool> used{false};
    uint32_t number = 0;
    uint32_t flags = 0;
    bool extended = false;           // made by aclrtCreateEventExWithFlag
    const Stream* stream = nullptr;  // that records it
    uint32_t created = 0;            // the number of the record before its first one
    std::atomic<uint32_t> recorded{0};
    std::atomic<Capture*> capture{nullptr};  // recorded in a stream that was captured

    bool WasRecorded() const { return recorded.load() != created; }
};

// Null is the default stream of the current context.
aclError FindStream(void* handle, Stream** stream);
aclError CreateStream(Context* context, Stream** stream);
aclError DestroyStream(Stream* stream);
// Forgets the streams of a device that is reset.
void ForgetStreams(uint32_t device);
StreamSlot& SlotOf(const Stream* stream);
// Streams that a capture has are no longer captured.
void StopCapturing(const Capture* capture);

aclError FindEvent(void* handle, Event** event);
aclError CreateEvent(Event** event, uint32_t flags, bool extended);
void DestroyEvent(Event* event);
aclError RecordEvent(Event* event, Stream* stream);
aclError WaitEvent(Stream* stream, Event* event);
// The last record is done.
bool IsDone(const Event* event);
EventSlot& SlotOf(const Event* event);
// Waits for the event's last record.
aclError AwaitEvent(const Event* event, int32_t milliseconds);

// Puts a command into a stream; `bytes` follow it. The task number of the command is filled in.
aclError Submit(Stream* stream, CommandHeader* command, size_t size, const void* bytes = nullptr, size_t byteCount = 0);
// Submits also to a stream whose context has failed, or which is captured.
aclError SubmitAlways(Stream* stream, CommandHeader* command, size_t size, const void* bytes, size_t byteCount);
// A call that is too long for a ring: its bytes go by device memory.
aclError SubmitStored(Stream* stream, const void* call, size_t bytes);

// Fails if nothing can be submitted any more.
aclError CheckAlive(const Stream* stream);
bool HasCompleted(Stream* stream);
// Waits until everything in the stream has run; `milliseconds` < 0: as long as it takes. Returns its error.
aclError Synchronize(Stream* stream, int32_t milliseconds = -1);
aclError SynchronizeDevice(uint32_t device, int32_t milliseconds = -1);
// The error of the stream that was not reported yet.
aclError TakeError(Stream* stream);
// Drops what has not begun in the device's streams, or in one of them; `milliseconds` 0: waits as long as it takes.
aclError Abort(uint32_t device, Stream* only, uint32_t milliseconds);

// The callback of aclrtSetExceptionInfoCallback gets this.
struct ExceptionInfo {
    uint32_t task;
    uint32_t stream;
    uint32_t thread;
    uint32_t device;
    uint32_t code;
};
void SetExceptionCallback(void (*callback)(ExceptionInfo*));

}  // namespace device
}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_DEVICE_RUNTIME_STREAMS_H
