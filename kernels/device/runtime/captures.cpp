#include "runtime/captures.h"

#include <cstring>

#include "runtime/tables.h"

namespace ms_ascend_ops {
namespace device {
namespace {

constexpr size_t MAX_CAPTURES = 1024;
auto& captures = *new Table<Capture, MAX_CAPTURES>;

}  // namespace

void Capture::Append(const CommandHeader* command, size_t size, const void* bytes, size_t byteCount)
{
    if (command->kind == CommandKind::RECORD || command->kind == CommandKind::WAIT) {
        return;  // only the order counts
    }
    std::vector<uint8_t> whole(size + byteCount);
    std::memcpy(whole.data(), command, size);
    if (byteCount > 0) {
        std::memcpy(whole.data() + size, bytes, byteCount);
    }
    std::lock_guard<std::mutex> lock(mutex);
    commands.push_back(std::move(whole));
}

Capture* FindCapture(void* handle)
{
    return captures.Find(handle);
}

aclError BeginCapture(Stream* stream)
{
    if (stream->capture.load() != nullptr) {
        return Fail(RT_STREAM_CAPTURED, "aclmdlRICaptureBegin: the stream is being captured");
    }
    Capture* const made = captures.Take();
    if (made == nullptr) {
        return Fail(RT_INTERNAL_ERROR, "there are already " + std::to_string(MAX_CAPTURES) + " captured models");
    }
    made->origin = stream;
    made->commands.clear();
    made->stored.clear();
    stream->capture.store(made);
    return SUCCESS;
}

aclError EndCapture(Stream* stream, Capture** capture)
{
    *capture = stream->capture.load();
    if (*capture == nullptr) {
        return Fail(RT_STREAM_NOT_CAPTURED, "aclmdlRICaptureEnd: the stream is not being captured");
    }
    if ((*capture)->origin != stream) {
        return Fail(RT_STREAM_CAPTURE_UNMATCHED, "aclmdlRICaptureEnd: the capture began in another stream");
    }
    StopCapturing(*capture);
    return SUCCESS;
}

aclError ReplayCapture(Capture* capture, Stream* stream)
{
    if (capture->origin->capture.load() == capture) {
        return Fail(RT_PARAM_INVALID, "aclmdlRIExecuteAsync: the capture has not ended (aclmdlRICaptureEnd)");
    }
    std::lock_guard<std::mutex> lock(capture->mutex);
    for (std::vector<uint8_t>& command : capture->commands) {
        if (const aclError error = Submit(stream, reinterpret_cast<CommandHeader*>(command.data()), command.size())) {
            return error;
        }
    }
    return SUCCESS;
}

void DestroyCapture(Capture* capture)
{
    StopCapturing(capture);
    for (void* const address : capture->stored) {
        TheDevices().Memory(DeviceOfAddress(reinterpret_cast<uint64_t>(address))).Free(address);
    }
    capture->commands.clear();
    capture->stored.clear();
    capture->used = false;
}

}  // namespace device
}  // namespace ms_ascend_ops
