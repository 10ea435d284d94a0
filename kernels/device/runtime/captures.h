/*!
 * aclmdlRICapture: what is submitted to a stream is kept, to be run again and again. Other streams join by waiting for
 * an event of a captured one. The order of submission respects all waits, so that one stream can run it all.
 */
#ifndef MS_ASCEND_OPS_DEVICE_RUNTIME_CAPTURES_H
#define MS_ASCEND_OPS_DEVICE_RUNTIME_CAPTURES_H

#include "runtime/streams.h"

namespace ms_ascend_ops {
namespace device {

struct Capture {
    std::atomic<bool> used{false};
    Stream* origin = nullptr;
    std::mutex mutex;
    std::vector<std::vector<uint8_t>> commands;
    std::vector<void*> stored;  // device memory of long calls

    void Append(const CommandHeader* command, size_t size, const void* bytes, size_t byteCount);
};

Capture* FindCapture(void* handle);
aclError BeginCapture(Stream* stream);
aclError EndCapture(Stream* stream, Capture** capture);
aclError ReplayCapture(Capture* capture, Stream* stream);
void DestroyCapture(Capture* capture);

}  // namespace device
}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_DEVICE_RUNTIME_CAPTURES_H
