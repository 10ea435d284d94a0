#include "runtime/contexts.h"

#include "runtime/streams.h"
#include "runtime/tables.h"

namespace ms_ascend_ops {
namespace device {
namespace {

struct Primary {
    Context* context = nullptr;
    uint32_t users = 0;
};

// They are never destroyed: threads may use them until the program has ended.
auto& contexts = *new Table<Context, MAX_CONTEXTS>;
std::mutex primaryMutex;
std::array<Primary, MAX_DEVICES> primaries;
thread_local Context* current = nullptr;

}  // namespace

Context* FindContext(void* handle)
{
    return contexts.Find(handle);
}

aclError CurrentContext(Context** context)
{
    if (current == nullptr || !current->used) {
        return Fail(RT_CONTEXT_NULL, "this thread has no context; call aclrtSetDevice or aclrtSetCurrentContext");
    }
    *context = current;
    return SUCCESS;
}

aclError CurrentDevice(uint32_t* device)
{
    Context* context = nullptr;
    if (const aclError error = CurrentContext(&context)) {
        return error;
    }
    *device = context->device;
    return SUCCESS;
}

void SetCurrentContext(Context* context)
{
    current = context;
}

aclError CreateContext(uint32_t device, Context** context)
{
    Context* const made = contexts.Take();
    if (made == nullptr) {
        return Fail(RT_INTERNAL_ERROR, "there are already " + std::to_string(MAX_CONTEXTS) + " contexts");
    }
    made->device = device;
    made->number = contexts.NumberOf(made);
    made->primary = false;
    made->defaultStream = nullptr;
    ContextSlot& slot = TheDevices().Shared().contexts[made->number];
    slot.stopsOnFailure.store(0);
    slot.failed.store(0);
    *context = made;
    return SUCCESS;
}

aclError DestroyContext(Context* context)
{
    aclError error = SUCCESS;
    if (context->defaultStream != nullptr) {
        error = DestroyStream(context->defaultStream);
    }
    context->used = false;
    return error;
}

aclError UseDevice(int32_t device)
{
    if (const aclError error = TheDevices().CheckNumber(device)) {
        return error;
    }
    const auto number = static_cast<uint32_t>(device);
    if (const aclError error = TheDevices().Start(number)) {
        return error;
    }
    std::lock_guard<std::mutex> lock(primaryMutex);
    Primary& primary = primaries[number];
    if (primary.context == nullptr) {
        if (const aclError error = CreateContext(number, &primary.context)) {
            return error;
        }
        primary.context->primary = true;
    }
    ++primary.users;
    current = primary.context;
    return SUCCESS;
}

namespace {

void Forget(uint32_t device)
{
    SynchronizeDevice(device);  // what failed is forgotten, too: a reset is how a program goes on
    ForgetStreams(device);
    for (Context& context : contexts.Entries()) {
        if (context.used && context.device == device) {
            context.used = false;
        }
    }
    primaries[device] = Primary{};
    TheDevices().Stop(device);
}

}  // namespace

aclError ReleaseDevice(int32_t device, bool force)
{
    if (const aclError error = TheDevices().CheckNumber(device)) {
        return error;
    }
    const auto number = static_cast<uint32_t>(device);
    std::lock_guard<std::mutex> lock(primaryMutex);
    Primary& primary = primaries[number];
    if (primary.context == nullptr) {
        return Fail(RT_CONTEXT_NULL, "aclrtResetDevice: device " + std::to_string(device) +
                                         " was not set (aclrtSetDevice), or is reset already");
    }
    if (!force && --primary.users > 0) {
        return SUCCESS;
    }
    Forget(number);
    return SUCCESS;
}

void ReleaseDevices()
{
    std::lock_guard<std::mutex> lock(primaryMutex);
    for (uint32_t device = 0; device < TheDevices().Count(); ++device) {
        Forget(device);
    }
}

}  // namespace device
}  // namespace ms_ascend_ops
