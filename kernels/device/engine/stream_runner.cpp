/*!
 * Implements the thread of a stream, which runs the ring's commands in order.
 */
#include <ctime>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "engine/engine.h"
#include "protocol/call.h"

namespace ms_ascend_ops {
namespace device {

thread_local uint32_t currentStream = 0;

namespace {

uint64_t Now()
{
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1000000000 + static_cast<uint64_t>(time.tv_nsec);
}

class StreamRunner {
public:
    explicit StreamRunner(uint32_t number) : number_(number), slot_(TheEngine().Stream(number))
    {
        read_ = slot_.read.load();
        task_ = slot_.completed.value.load();
    }

    void Run()
    {
        for (;;) {
            AwaitTask();
            const CommandHeader* const header = Header();
            if (header->kind == CommandKind::SKIP) {
                Advance(header->bytes);
                continue;
            }
            task_ = header->task;
            const bool stops = header->kind == CommandKind::STOP;
            if (const Failure failure = ExecuteGuarded(*header)) {
                Report(failure);
            }
            Advance(header->bytes);
            slot_.completed.Set(task_);
            if (stops) {
                return;
            }
        }
    }

private:
    ContextSlot& Context() const { return TheEngine().session->contexts[slot_.context]; }
    static bool IsOwn(uint64_t address)
    {
        return IsDeviceAddress(address) && DeviceOfAddress(address) == TheEngine().device;
    }
    const CommandHeader* Header() const
    {
        return reinterpret_cast<const CommandHeader*>(slot_.ring + read_ % RING_BYTES);
    }
    void Advance(uint32_t bytes)
    {
        read_ += bytes;
        slot_.read.store(read_);
    }
    void AwaitTask()
    {
        while (slot_.submitted.load() == task_) {
            slot_.sleeping.store(1);
            if (slot_.submitted.load() == task_) {
                FutexWait(slot_.submitted, task_, 60000);
            }
            slot_.sleeping.store(0);
        }
    }

    Failure ExecuteGuarded(const CommandHeader& header)
    {
        try {
            return Execute(header);
        } catch (const std::exception& error) {  // a call that is not as protocol/call.h says
            return {AICORE_EXCEPTION, std::string(slot_.running) + ": " + error.what()};
        }
    }

    Failure Execute(const CommandHeader& header)
    {
        const bool skips = Context().failed.load() != 0 || slot_.aborted.load() != 0;
        switch (header.kind) {
            case CommandKind::RECORD:
                Record(reinterpret_cast<const EventCommand&>(header));
                return {};
            case CommandKind::CALL:
                return skips ? Failure{} : Call(&header + 1, header.size);
            case CommandKind::STORED_CALL: {
                const auto& command = reinterpret_cast<const StoredCallCommand&>(header);
                return skips ? Failure{} : Call(reinterpret_cast<const void*>(command.address), command.bytes);
            }
            case CommandKind::COPY:
                return skips ? Failure{} : Copy(reinterpret_cast<const CopyCommand&>(header));
            case CommandKind::FILL: {
                const auto& command = reinterpret_cast<const FillCommand&>(header);
                return skips ? Failure{} : Fill(command);
            }
            case CommandKind::WAIT:
                return skips ? Failure{} : Wait(reinterpret_cast<const EventCommand&>(header));
            case CommandKind::HOST_FUNCTION:
                return skips ? Failure{} : Host();
            case CommandKind::SKIP:
            case CommandKind::STOP:
                break;
        }
        return {};
    }

    Failure Call(const void* call, size_t bytes)
    {
        CallReader reader(call, bytes);
        const std::string_view name = reader.Name();
        const std::string_view shown = name == "kernel" ? reader.String() : name;
        const size_t length = std::min(shown.size(), sizeof(slot_.running) - 1);
        std::memcpy(slot_.running, shown.data(), length);
        slot_.running[length] = 0;
        Failure failure;
        if (name == "kernel") {
            const bool known = TheEngine().isKnown != nullptr && TheEngine().isKnown(call, bytes) != 0;
            static std::mutex mutex;  // a prediction is that of the last launch
            std::unique_lock<std::mutex> lock(mutex, std::defer_lock);
            if (TheEngine().predict != nullptr && !known) {
                lock.lock();
            }
            failure = RunKernel(call, bytes, known ? Build::FAST : Build::FIRST);
            Spend("call", call, bytes);
        } else {
            char text[TEXT_BYTES] = "";
            if (TheEngine().run(call, bytes, text, sizeof(text)) != 0) {
                failure = {AICORE_EXCEPTION, text};
            }
            Spend("call", call, bytes);
        }
        slot_.running[0] = 0;
        return failure;
    }

    Failure Copy(const CopyCommand& command)
    {
        if (!IsOwn(command.destination) || !IsOwn(command.source)) {
            Failure failure = Host();
            Spend("host copy", nullptr, command.rows * command.bytes);
            return failure;
        }
        for (uint64_t row = 0; row < command.rows; ++row) {
            const uint64_t destination = command.destination + row * command.destinationPitch;
            const uint64_t source = command.source + row * command.sourcePitch;
            std::memmove(reinterpret_cast<void*>(destination), reinterpret_cast<const void*>(source), command.bytes);
            if (KeepsShadow()) {
                NoteCopied(destination, source, command.bytes);
            }
        }
        Spend("copy", nullptr, command.rows * command.bytes);
        return {};
    }

    Failure Fill(const FillCommand& command)
    {
        if (!IsOwn(command.address)) {
            return {AICORE_EXCEPTION, "aclrtMemsetAsync: the memory is not that of the stream's device"};
        }
        std::memset(reinterpret_cast<void*>(command.address), static_cast<int>(command.value), command.bytes);
        if (KeepsShadow()) {
            NoteWritten(command.address, command.bytes);
        }
        Spend("set", nullptr, command.bytes);
        return {};
    }

    // Advances the stream's clock by what the chip would take.
    void Spend(const char* what, const void* call, size_t bytes)
    {
        if (TheEngine().predict != nullptr) {
            slot_.clock += TheEngine().predict(number_, what, call, bytes, slot_.clock);
        }
    }

    Failure Host()
    {
        const uint32_t code = AskHost(number_, read_);
        return code == 0 ? Failure{} : Failure{code, slot_.answerText};
    }

    void Record(const EventCommand& command)
    {
        EventSlot& event = TheEngine().session->events[command.event];
        event.nanoseconds = Now();
        event.clock = slot_.clock;
        event.done.Set(command.number);
    }

    Failure Wait(const EventCommand& command)
    {
        EventSlot& event = TheEngine().session->events[command.event];
        const DeviceSlot& device = TheEngine().session->devices[event.device];
        const auto patience = [this, &device] {
            const auto state = static_cast<DeviceState>(device.state.load());
            const bool runs = state == DeviceState::STARTING || state == DeviceState::READY;
            return !runs || slot_.aborted.load() != 0 ? 0 : PATIENCE;
        };
        if (!event.done.Wait(command.number, patience) && slot_.aborted.load() == 0) {
            return {LOST_HEARTBEAT, "the device whose event the stream waits for has ended"};
        }
        slot_.clock = std::max(slot_.clock, event.clock);
        return {};
    }

    void Report(const Failure& failure)
    {
        if (slot_.error.load() == 0) {
            slot_.errorTask = task_;
            std::strncpy(slot_.text, failure.text.c_str(), sizeof(slot_.text) - 1);
            slot_.error.store(failure.code);
        }
        ContextSlot& context = Context();
        if (context.stopsOnFailure.load() != 0 && context.failed.load() == 0) {
            std::strncpy(context.text, failure.text.c_str(), sizeof(context.text) - 1);
            context.failed.store(failure.code);
        }
    }

    uint32_t number_;
    StreamSlot& slot_;
    uint64_t read_;
    uint32_t task_;
};

}  // namespace

void RunStream(uint32_t number)
{
    currentStream = number + 1;
    StreamRunner(number).Run();
    currentStream = 0;
}

}  // namespace device
}  // namespace ms_ascend_ops
