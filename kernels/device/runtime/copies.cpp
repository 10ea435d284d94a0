#include "runtime/copies.h"

#include <setjmp.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "runtime/devices.h"
#include "runtime/settings.h"

namespace ms_ascend_ops {
namespace device {
namespace {

// The copy goes on here when it faults: a host address that is not there must not end the program.
thread_local sigjmp_buf* volatile guard = nullptr;
struct sigaction previous[NSIG];

template <typename Body>
bool Guarded(const Body& body)
{
    sigjmp_buf here;
    if (sigsetjmp(here, 0) != 0) {
        guard = nullptr;
        return false;
    }
    guard = &here;
    std::atomic_signal_fence(std::memory_order_seq_cst);  // what follows is not moved to before
    body();
    std::atomic_signal_fence(std::memory_order_seq_cst);
    guard = nullptr;
    return true;
}

void OnFault(int signal, siginfo_t* info, void*)
{
    if (guard != nullptr) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, signal);
        pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
        siglongjmp(*guard, 1);
    }
    const auto address = reinterpret_cast<uint64_t>(info->si_addr);
    Devices& devices = TheDevices();
    if (IsDeviceAddress(address) && devices.IsOpen() && DeviceOfAddress(address) < devices.Count()) {
        const std::string place = devices.Memory(DeviceOfAddress(address)).Describe(address, true);
        dprintf(
            STDERR_FILENO,
            "ms_ascend_ops: the program touched device memory by the pointer 0x%llx, which faults on an NPU, too: it "
            "is %s. Copy it to the host first (aclrtMemcpy; of a Tensor, asnumpy).\n",
            static_cast<unsigned long long>(address), place.c_str());
    }
    // The instruction runs again, and faults for who was asked before.
    sigaction(signal, &previous[signal], nullptr);
}

// A device address's bytes in pieces, as this process sees them; others as they are. False: `text` says why not.
bool See(uint64_t address, uint64_t bytes, uint8_t** at, uint64_t* follow, std::string& text)
{
    *follow = bytes;
    if (!IsDeviceAddress(address)) {
        *at = reinterpret_cast<uint8_t*>(address);
        return true;
    }
    Devices& devices = TheDevices();
    if (DeviceOfAddress(address) >= devices.Count()) {
        text = Hex(address) + " belongs to no device";
        return false;
    }
    *at = devices.Memory(DeviceOfAddress(address)).View(address, bytes, *follow, text);
    return *at != nullptr;
}

}  // namespace

void ExplainFaults()
{
    static const bool done = [] {
        struct sigaction action = {};
        action.sa_sigaction = OnFault;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        for (const int signal : {SIGSEGV, SIGBUS}) {
            sigaction(signal, &action, &previous[signal]);
        }
        return true;
    }();
    (void)done;
}

aclError CheckRange(const char* what, uint64_t address, uint64_t bytes)
{
    for (uint64_t done = 0; done < bytes;) {
        uint8_t* at = nullptr;
        uint64_t follow = 0;
        std::string text;
        if (!See(address + done, bytes - done, &at, &follow, text)) {
            return Fail(RT_PARAM_INVALID, std::string(what) + ": " + text);
        }
        done += follow;
    }
    return SUCCESS;
}

// From the view to large pages of the host one piece takes twice as long as many; everything else a half longer in
// many.
void Move(uint8_t* to, const uint8_t* from, uint64_t bytes, bool isDownload)
{
    constexpr uint64_t PIECE = 4U << 20;
    const uint64_t step = isDownload ? PIECE : bytes;
    for (uint64_t done = 0; done < bytes; done += step) {
        std::memmove(to + done, from + done, std::min(step, bytes - done));
    }
}

// With --check: keeps books of what was written, and fails where the host reads what was not.
aclError NoteCopy(uint64_t destination, uint8_t* to, uint64_t source, const uint8_t* from, uint64_t bytes)
{
    if (!IsDeviceAddress(source)) {
        if (IsDeviceAddress(destination)) {
            std::memset(to + SHADOW_OFFSET, 1, bytes);
        }
        return SUCCESS;
    }
    if (IsDeviceAddress(destination)) {
        std::memmove(to + SHADOW_OFFSET, from + SHADOW_OFFSET, bytes);
        return SUCCESS;
    }
    const void* const found = std::memchr(from + SHADOW_OFFSET, 0, bytes);
    if (found == nullptr) {
        return SUCCESS;
    }
    const uint64_t at = source + static_cast<uint64_t>(static_cast<const uint8_t*>(found) - from - SHADOW_OFFSET);
    return Fail(RT_PARAM_INVALID, "a copy of " + std::to_string(bytes) + " bytes from " + Hex(source) +
                                      " to the host reads " + Hex(at) + ", which nobody has written: it is " +
                                      TheDevices().Memory(DeviceOfAddress(at)).Describe(at));
}

aclError CopyNow(uint64_t destination, uint64_t source, uint64_t bytes)
{
    while (bytes > 0) {
        uint8_t* to = nullptr;
        uint8_t* from = nullptr;
        uint64_t toFollow = 0;
        uint64_t fromFollow = 0;
        std::string text;
        if (!See(destination, bytes, &to, &toFollow, text) || !See(source, bytes, &from, &fromFollow, text)) {
            return Fail(RT_PARAM_INVALID, "a copy: " + text);
        }
        const uint64_t piece = std::min(toFollow, fromFollow);
        constexpr uint64_t LARGE = 1U << 18;
        const bool isUpload = IsDeviceAddress(destination) && !IsDeviceAddress(source) && piece >= LARGE;
        const bool isDownload = IsDeviceAddress(source) && !IsDeviceAddress(destination);
        const bool written = isUpload && TheDevices().Memory(DeviceOfAddress(destination)).WriteFresh(to, from, piece);
        if (!written && !Guarded([&] { Move(to, from, piece, isDownload); })) {
            return Fail(RT_PARAM_INVALID, "a copy of " + std::to_string(piece) + " bytes from " + Hex(source) + " to " +
                                              Hex(destination) + ": the host address is not memory of this process");
        }
        if (TheSettings().checks) {
            if (const aclError error = NoteCopy(destination, to, source, from, piece)) {
                return error;
            }
        }
        destination += piece;
        source += piece;
        bytes -= piece;
    }
    return SUCCESS;
}

aclError CopyRows(const CopyCommand& command)
{
    aclError error = SUCCESS;
    for (uint64_t row = 0; row < command.rows && error == SUCCESS; ++row) {
        error = CopyNow(command.destination + row * command.destinationPitch,
                        command.source + row * command.sourcePitch, command.bytes);
    }
    return error;
}

aclError FillNow(uint64_t address, int32_t value, uint64_t bytes)
{
    while (bytes > 0) {
        uint8_t* at = nullptr;
        uint64_t follow = 0;
        std::string text;
        if (!See(address, bytes, &at, &follow, text)) {
            return Fail(RT_PARAM_INVALID, "aclrtMemset: " + text);
        }
        if (!Guarded([&] { std::memset(at, value, follow); })) {
            return Fail(RT_PARAM_INVALID, "aclrtMemset: " + Hex(address) + " is not memory of this process");
        }
        if (TheSettings().checks && IsDeviceAddress(address)) {
            std::memset(at + SHADOW_OFFSET, 1, follow);
        }
        address += follow;
        bytes -= follow;
    }
    return SUCCESS;
}

}  // namespace device
}  // namespace ms_ascend_ops
