/*!
 * Contexts, streams and events of the host's side. Their handles are addresses of entries of tables that never go away,
 * so that a handle that is no longer good is found to be that.
 */
#ifndef MS_ASCEND_OPS_DEVICE_RUNTIME_STREAMS_H
#define MS_ASCEND_OPS_DEVICE_RUNTIME_STREAMS_H

#include <mutex>

#include "runtime/devices.h"

namespace ms_ascend_ops {
namespace device {

struct Context {
    bool used = false;
    uint32_t device = 0;
    bool primary = false;
    struct Stream* defaultStream = nullptr;
};

struct Stream {
    bool used = false;
    uint32_t number = 0;
    Context* context = nullptr;
    uint32_t flags = 0;
    uint32_t priority = 0;
    std::mutex mutex;  // of what follows
    uint32_t submitted = 0;
    uint64_t written = 0;                            // bytes of the ring
    std::vector<std::pair<uint32_t, void*>> stored;  // calls in device memory, by their tasks

    uint32_t Device() const { return context->device; }
};

struct Event {
    bool used = false;
    uint32_t number = 0;
    uint32_t flags = 0;
    std::atomic<uint32_t> recorded{0};
    uint32_t created = 0;  // records up to this one were those of an earlier event
};

constexpr uint32_t MAX_CONTEXTS = 256;

// The current context of the calling thread; fails if there is none.
aclError CurrentContext(Context** context);
aclError SetCurrentDevice(int32_t device);
aclError CreateContext(uint32_t device, Context** context);
Context* ContextOf(void* handle);
void SetCurrentContext(Context* context);
// Streams and contexts of a device that was reset.
void ForgetDevice(uint32_t device);
// Null is the default stream of the current context.
aclError FindStream(void* handle, Stream** stream);
aclError FindEvent(void* handle, Event** event);
aclError CreateStream(Context* context, Stream** stream);
aclError DestroyStream(Stream* stream);
aclError CreateEvent(Event** event, uint32_t flags);

// Puts a command into a stream; `bytes` follow it. The task number of the command is filled in.
aclError Submit(Stream* stream, CommandHeader* command, size_t size, const void* bytes = nullptr, size_t byteCount = 0);
// A call that is too long for a ring: its bytes go by device memory.
aclError SubmitStored(Stream* stream, const void* call, size_t bytes);
bool HasCompleted(Stream* stream);
// Waits for the event's last record.
aclError AwaitEvent(const Event* event, int32_t milliseconds);
// Waits until everything in the stream has run; `milliseconds` < 0: as long as it takes. Returns its error.
aclError Synchronize(Stream* stream, int32_t milliseconds = -1);
aclError SynchronizeDevice(uint32_t device, int32_t milliseconds = -1);
// The error of the stream that was not reported yet.
aclError TakeError(Stream* stream);

}  // namespace device
}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_DEVICE_RUNTIME_STREAMS_H
