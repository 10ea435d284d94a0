/*!
 * Holds the devices of this program: their processes, their memory, and the session that all share.
 */
#ifndef MS_ASCEND_OPS_DEVICE_RUNTIME_DEVICES_H
#define MS_ASCEND_OPS_DEVICE_RUNTIME_DEVICES_H

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/memory.h"

namespace ms_ascend_ops {
namespace device {

class Devices {
public:
    // Makes the session; nothing is started. An error is remembered and returned each time.
    aclError Open();
    bool IsOpen() const { return session_ != nullptr; }
    uint32_t Count() const { return static_cast<uint32_t>(devices_.size()); }
    aclError CheckNumber(int64_t device) const;

    // Starts the device's process if there is none.
    aclError Start(uint32_t device);
    // Ends it; what its memory held is lost.
    void Stop(uint32_t device);
    void StopAll();

    Session& Shared() { return *session_; }
    DeviceMemory& Memory(uint32_t device) { return *devices_[device]->memory; }
    bool Ended(uint32_t device) const;
    // Fails and says why the device's process has ended.
    aclError FailAsEnded(uint32_t device);
    // Asks the device's process for something, and waits for the answer where the request has one.
    aclError Control(uint32_t device, ControlRequest request, bool waits = true);

    // The child of a fork cannot use the devices, and must not keep them alive.
    void ForgetInChild();

private:
    struct Device {
        std::unique_ptr<DeviceMemory> memory;
        std::mutex mutex;  // of start, stop and control
        int socket = -1;
        pid_t pid = 0;
        uint32_t lastRequest = 0;
        std::thread helper;
        std::string endText;
        aclError endCode = SUCCESS;
    };

    aclError OpenOnce();
    aclError Spawn(uint32_t device, int socket);
    void Help(uint32_t device, int socket);
    void NoteEnd(uint32_t device);
    std::string Running(uint32_t device) const;

    std::mutex mutex_;
    std::vector<std::unique_ptr<Device>> devices_;
    Session* session_ = nullptr;
    int sessionFile_ = -1;
    bool forked_ = false;
    std::string failure_;
};

Devices& TheDevices();

}  // namespace device
}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_DEVICE_RUNTIME_DEVICES_H
