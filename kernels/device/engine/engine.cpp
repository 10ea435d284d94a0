#include "engine/engine.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cerrno>
#include <cstdio>
#include <cstring>

#define EXPORT __attribute__((visibility("default")))

namespace ms_ascend_ops {
namespace device {

Engine& TheEngine()
{
    static Engine engine;
    return engine;
}

namespace {

// The whole span is reserved, so that nothing else of this process can be there.
bool Reserve(uint64_t address)
{
    void* const base = reinterpret_cast<void*>(address);
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    return mmap(base, MEMORY_SPAN, PROT_NONE, flags, -1, 0) == base;
}

bool MapPages(const ControlRequest& request, uint64_t shift, uint64_t fileShift)
{
    void* const address = reinterpret_cast<void*>(request.address + shift);
    const int file = MEMORY_FILE + static_cast<int>(request.owner);
    const bool maps = request.kind == ControlKind::MAP;
    const void* const mapped =
        maps ? mmap(address, request.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file,
                    static_cast<off_t>(request.offset + fileShift))
             : mmap(address, request.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return mapped == address;
}

uint32_t Map(const ControlRequest& request)
{
    const bool mapped = MapPages(request, 0, 0) && (!KeepsShadow() || MapPages(request, SHADOW_SHIFT, SHADOW_OFFSET));
    return mapped ? 0 : static_cast<uint32_t>(errno);
}

void Answer(const ControlRequest& request, uint32_t error)
{
    DeviceSlot& slot = TheEngine().Slot();
    slot.answer.store(error);
    slot.answered.Set(request.number);
}

}  // namespace

bool KeepsShadow()
{
    return TheEngine().session->checks != 0;
}

void NoteWritten(uint64_t address, uint64_t bytes)
{
    std::memset(reinterpret_cast<void*>(address + SHADOW_SHIFT), 1, bytes);
}

void NoteCopied(uint64_t destination, uint64_t source, uint64_t bytes)
{
    std::memmove(reinterpret_cast<void*>(destination + SHADOW_SHIFT),
                 reinterpret_cast<const void*>(source + SHADOW_SHIFT), bytes);
}

uint64_t CountWritten(uint64_t address, uint64_t bytes)
{
    const auto* const shadow = reinterpret_cast<const uint8_t*>(address + SHADOW_SHIFT);
    const void* const found = std::memchr(shadow, 0, bytes);
    return found == nullptr ? bytes : static_cast<uint64_t>(static_cast<const uint8_t*>(found) - shadow);
}

uint32_t AskHost(uint32_t stream, uint64_t read)
{
    StreamSlot& slot = TheEngine().Stream(stream);
    const HostRequest request{stream, slot.answered.value.load() + 1, read};
    if (send(SOCKET_FILE, &request, sizeof(request), MSG_NOSIGNAL) != sizeof(request)) {
        pause();  // the host is gone; the main thread ends this process
    }
    slot.answered.Wait(request.number, [] { return PATIENCE; });
    return slot.answer.load();
}

}  // namespace device
}  // namespace ms_ascend_ops

using namespace ms_ascend_ops::device;

extern "C" {

// Makes this process device `device` of the program that started it. Returns 0, or not and writes why. `fast`: null, or
// the library that runs launches whose times are known.
EXPORT int MsAscendEngineStart(uint32_t device, const char* kernels, const char* fast, MsAscendDeviceOperator run,
                               MsAscendDevicePredictor predict, MsAscendDeviceRecall isKnown, char* error,
                               size_t errorBytes)
{
    Engine& engine = TheEngine();
    void* const session = mmap(nullptr, sizeof(Session), PROT_READ | PROT_WRITE, MAP_SHARED, SESSION_FILE, 0);
    if (session == MAP_FAILED) {
        std::snprintf(error, errorBytes, "the session cannot be mapped: %s", std::strerror(errno));
        return 1;
    }
    engine.device = device;
    engine.session = static_cast<Session*>(session);
    engine.run = run;
    engine.predict = predict;
    engine.isKnown = fast == nullptr ? nullptr : isKnown;
    for (int file = SOCKET_FILE; file < MEMORY_FILE + static_cast<int>(engine.session->deviceCount); ++file) {
        fcntl(file, F_SETFD, FD_CLOEXEC);
    }
    for (uint32_t owner = 0; owner < engine.session->deviceCount; ++owner) {
        if (!Reserve(MemoryBase(owner)) || (KeepsShadow() && !Reserve(MemoryBase(owner) + SHADOW_SHIFT))) {
            std::snprintf(error, errorBytes, "the addresses of device %u's memory cannot be reserved: %s", owner,
                          std::strerror(errno));
            return 1;
        }
    }
    std::string reason = OpenKernels(kernels, Build::FIRST);
    if (reason.empty() && fast != nullptr) {
        reason = OpenKernels(fast, Build::FAST);
    }
    if (!reason.empty()) {
        std::snprintf(error, errorBytes, "%s", reason.c_str());
        return 1;
    }
    NoteFaults();
    engine.Slot().pid.store(static_cast<uint32_t>(getpid()));
    engine.Slot().state.store(static_cast<uint32_t>(DeviceState::READY));
    return 0;
}

// Answers the host until it wants a stream to be run: its number. -1: the program has ended, or wants the device to.
EXPORT int MsAscendEngineNext()
{
    for (;;) {
        ControlRequest request;
        const ssize_t got = recv(SOCKET_FILE, &request, sizeof(request), 0);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got != sizeof(request)) {
            alarm(TheEngine().predict == nullptr ? 10 : 60);  // whatever still runs then: the program is gone
            return -1;
        }
        if (request.kind == ControlKind::START_STREAM) {
            return static_cast<int>(request.stream);
        }
        Answer(request, Map(request));
    }
}

// From an address to the shadow that tells whether it was written; 0: there is none.
EXPORT uint64_t MsAscendEngineShadowShift()
{
    return KeepsShadow() ? SHADOW_SHIFT : 0;
}

EXPORT void MsAscendEngineRunStream(uint32_t number)
{
    RunStream(number);
}

}  // extern "C"
