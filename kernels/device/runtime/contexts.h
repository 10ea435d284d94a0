/*!
 * Contexts belong to a device and are current in a thread; they own streams.
 */
#ifndef MS_ASCEND_OPS_DEVICE_RUNTIME_CONTEXTS_H
#define MS_ASCEND_OPS_DEVICE_RUNTIME_CONTEXTS_H

#include "runtime/devices.h"

namespace ms_ascend_ops {
namespace device {

struct Stream;

struct Context {
    std::atomic<bool> used{false};
    uint32_t device = 0;
    uint32_t number = 0;
    bool primary = false;
    Stream* defaultStream = nullptr;
};

// The current context of the calling thread; fails if there is none.
aclError CurrentContext(Context** context);
aclError CurrentDevice(uint32_t* device);
void SetCurrentContext(Context* context);
// Null: the handle is not good.
Context* FindContext(void* handle);
aclError CreateContext(uint32_t device, Context** context);
aclError DestroyContext(Context* context);

// aclrtSetDevice and aclrtResetDevice: the device's primary context, which is counted.
aclError UseDevice(int32_t device);
aclError ReleaseDevice(int32_t device, bool force);
// aclFinalize: of all devices.
void ReleaseDevices();

}  // namespace device
}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_DEVICE_RUNTIME_CONTEXTS_H
