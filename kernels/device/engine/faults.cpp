/*!
 * A kernel that faults ends its device, as on hardware. What is known goes into the device's slot, for the host to
 * tell.
 */
#include <csignal>

#include <unistd.h>

#include "engine/engine.h"

namespace ms_ascend_ops {
namespace device {
namespace {

void OnFault(int signal, siginfo_t* info, void*)
{
    DeviceSlot& slot = TheEngine().Slot();
    slot.faultAddress = reinterpret_cast<uint64_t>(info->si_addr);
    slot.faultStream.store(currentStream);
    slot.signal.store(static_cast<uint32_t>(signal));
    _exit(128 + signal);
}

}  // namespace

void NoteFaults()
{
    struct sigaction action = {};
    action.sa_sigaction = OnFault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) {
        sigaction(signal, &action, nullptr);
    }
}

}  // namespace device
}  // namespace ms_ascend_ops
