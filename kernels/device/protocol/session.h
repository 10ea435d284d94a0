/*!
 * A program (libascendcl) and its device processes (libms_ascend_device) share this: one anonymous file, the session,
 * with a slot for every device, stream and event; and for every device a file with its memory.
 *
 * A stream is a ring of commands. The host writes commands and rings `submitted`; the stream's thread in the device
 * process runs them in order and advances `completed`. What only the host can do (it alone sees its own memory and
 * functions) the thread asks for by a HostRequest through the device's socket, and waits for `answered`.
 *
 * The memory of a device has the same addresses in all processes. Of its file, the first half holds what is allocated:
 * there an offset is the address less the device's base. The second half holds physical memory, which is mapped to
 * addresses by request. Behind it is the shadow: a byte for each byte of the file, not 0 when that was written
 * (--check).
 */
#ifndef MS_ASCEND_OPS_DEVICE_PROTOCOL_SESSION_H
#define MS_ASCEND_OPS_DEVICE_PROTOCOL_SESSION_H

#include "protocol/futex.h"

namespace ms_ascend_ops {
namespace device {

constexpr uint32_t MAX_DEVICES = 16;
constexpr uint32_t MAX_CONTEXTS = 256;
constexpr uint32_t MAX_STREAMS = 1024;
constexpr uint32_t MAX_EVENTS = 65536;
constexpr uint32_t RING_BYTES = 1U << 17;
constexpr uint32_t MAX_COMMAND_BYTES = RING_BYTES / 4;  // a longer one stands in device memory
constexpr uint32_t COMMAND_STEP = 16;
constexpr uint32_t TEXT_BYTES = 2048;

// Addresses look as those of an Ascend device do, and nothing of Linux lives there.
constexpr uint64_t MEMORY_BASE = 0x120000000000;
constexpr uint64_t MEMORY_SPAN = uint64_t{1} << 40;
constexpr uint64_t FILE_BYTES = 2 * MEMORY_SPAN;
constexpr uint64_t SHADOW_OFFSET = FILE_BYTES;
constexpr uint64_t SHADOW_SHIFT = MAX_DEVICES * MEMORY_SPAN;  // in a device process, from an address to its shadow

inline uint64_t MemoryBase(uint32_t device)
{
    return MEMORY_BASE + device * MEMORY_SPAN;
}
inline bool IsDeviceAddress(uint64_t address)
{
    return address >= MEMORY_BASE && address < MEMORY_BASE + MAX_DEVICES * MEMORY_SPAN;
}
inline uint32_t DeviceOfAddress(uint64_t address)
{
    return static_cast<uint32_t>((address - MEMORY_BASE) / MEMORY_SPAN);
}

enum class CommandKind : uint32_t { SKIP, CALL, STORED_CALL, COPY, FILL, RECORD, WAIT, HOST_FUNCTION, STOP };

struct CommandHeader {
    uint32_t bytes;  // with the header; a multiple of COMMAND_STEP
    CommandKind kind;
    uint32_t task;
    uint32_t size;  // of a call's bytes behind the header
};
struct StoredCallCommand {
    CommandHeader header;
    uint64_t address;  // the call's bytes are in device memory
    uint64_t bytes;
};
// `rows` pieces of `bytes`; a plain copy has one.
struct CopyCommand {
    CommandHeader header;
    uint64_t destination;
    uint64_t source;
    uint64_t bytes;
    uint64_t rows;
    uint64_t destinationPitch;
    uint64_t sourcePitch;
};
struct FillCommand {
    CommandHeader header;
    uint64_t address;
    uint64_t bytes;
    uint64_t value;
};
struct EventCommand {
    CommandHeader header;
    uint32_t event;
    uint32_t number;  // of the record
};
struct HostFunctionCommand {
    CommandHeader header;
    uint64_t function;
    uint64_t argument;
    uint64_t thread;  // of aclrtSubscribeReport; 0: a thread of the runtime
    uint32_t blocks;  // the stream waits until it has returned
    uint32_t unused;
};

struct StreamSlot {
    Word submitted;  // the number of the last task that was written
    Word sleeping;   // the stream's thread waits for `submitted`
    Progress completed;
    Progress answered;           // requests to the host
    Word answer;                 // an error code
    Word error;                  // the first error that was not reported yet
    Word aborted;                // drop what was not begun
    std::atomic<uint64_t> read;  // bytes of the ring, counted from the beginning of time
    uint64_t clock;              // predicted nanoseconds
    uint32_t device;
    uint32_t context;
    uint32_t errorTask;
    char running[128];            // the call that runs
    char text[TEXT_BYTES];        // of `error`
    char answerText[TEXT_BYTES];  // of `answer`
    alignas(64) uint8_t ring[RING_BYTES];
};

struct EventSlot {
    Progress done;  // the number of the last record
    uint32_t device;
    uint32_t error;
    uint64_t nanoseconds;
    uint64_t clock;
};

// With stopsOnFailure nothing of its streams runs any more when one has failed.
struct ContextSlot {
    Word stopsOnFailure;
    Word failed;  // the error code
    char text[TEXT_BYTES];
};

enum class DeviceState : uint32_t { NONE, STARTING, READY, ENDED };

enum class ControlKind : uint32_t { MAP, UNMAP, START_STREAM };
struct ControlRequest {
    ControlKind kind;
    uint32_t number;  // of the request; 0: nobody waits for an answer
    uint32_t stream;
    uint32_t owner;  // the device whose memory it is
    uint64_t address;
    uint64_t bytes;
    uint64_t offset;
};
struct HostRequest {
    uint32_t stream;
    uint32_t number;
    uint64_t read;  // where the command stands in the ring
};

struct DeviceSlot {
    Word state;
    Word pid;
    Progress answered;  // control requests
    Word answer;        // errno of the last one
    // Why the process ends; signal 0 and no text: nothing is known.
    Word signal;
    Word faultStream;  // one more than its number
    uint64_t faultAddress;
    char text[TEXT_BYTES];
};

struct Session {
    uint32_t deviceCount;
    uint32_t checks;  // keep and ask the shadow
    DeviceSlot devices[MAX_DEVICES];
    ContextSlot contexts[MAX_CONTEXTS];
    EventSlot events[MAX_EVENTS];
    StreamSlot streams[MAX_STREAMS];
};

// The files that a device process is started with.
constexpr int SOCKET_FILE = 3;
constexpr int SESSION_FILE = 4;
constexpr int MEMORY_FILE = 5;  // and those of the further devices

}  // namespace device
}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_DEVICE_PROTOCOL_SESSION_H
