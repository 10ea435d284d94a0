/*!
 * The device process: it maps the device's memory, answers what the host asks through the socket, and runs streams.
 */
#ifndef MS_ASCEND_OPS_DEVICE_ENGINE_ENGINE_H
#define MS_ASCEND_OPS_DEVICE_ENGINE_ENGINE_H

#include <cstddef>
#include <string>

#include "protocol/session.h"

extern "C" {

// Computes a call that is no kernel. Not 0: it failed, and `error` says why.
typedef int (*MsAscendDeviceOperator)(const void* call, size_t bytes, char* error, size_t errorBytes);

// Tells what a command of a stream takes on the chip, in nanoseconds, and keeps it for the trace: `what` is "call"
// (with the call's bytes), "copy", "host copy" or "set" (with as many bytes). `begin`: the stream's clock.
typedef uint64_t (*MsAscendDevicePredictor)(uint32_t stream, const char* what, const void* call, size_t bytes,
                                            uint64_t begin);

// Tells whether what a launch takes is known from an equal one, so that the fast build may run it.
typedef int (*MsAscendDeviceRecall)(const void* call, size_t bytes);

}  // extern "C"

namespace ms_ascend_ops {
namespace device {

struct Engine {
    uint32_t device = 0;
    Session* session = nullptr;
    MsAscendDeviceOperator run = nullptr;
    MsAscendDevicePredictor predict = nullptr;  // null: nobody wants times
    MsAscendDeviceRecall isKnown = nullptr;     // null: there is no fast build beside the one that predicts

    DeviceSlot& Slot() const { return session->devices[device]; }
    StreamSlot& Stream(uint32_t number) const { return session->streams[number]; }
};

Engine& TheEngine();

// An error of the device: the code that the next synchronisation returns, and why.
struct Failure {
    uint32_t code = 0;
    std::string text;

    explicit operator bool() const { return code != 0; }
};

constexpr uint32_t LOST_HEARTBEAT = 507010;
constexpr uint32_t AICORE_EXCEPTION = 507015;
constexpr uint32_t VECTOR_CORE_EXCEPTION = 507035;

enum class Build { FIRST, FAST };

// Opens a kernel library. Returns why it cannot be.
std::string OpenKernels(const char* path, Build build);
// Runs the call `kernel` (protocol/call.h).
Failure RunKernel(const void* call, size_t bytes, Build build);

// From now on a fault of this process is noted in the device's slot before the process ends.
void NoteFaults();
// The calling thread runs this stream; one more than its number.
extern thread_local uint32_t currentStream;

// With --check: which bytes of this device's memory were written.
bool KeepsShadow();
void NoteWritten(uint64_t address, uint64_t bytes);
void NoteCopied(uint64_t destination, uint64_t source, uint64_t bytes);
// Returns how many bytes were written before the first one that never was.
uint64_t CountWritten(uint64_t address, uint64_t bytes);

void RunStream(uint32_t number);
// Asks the host for what only it can do; returns its error code.
uint32_t AskHost(uint32_t stream, uint64_t read);

}  // namespace device
}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_DEVICE_ENGINE_ENGINE_H
