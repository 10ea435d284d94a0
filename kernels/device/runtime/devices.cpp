#include "runtime/devices.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "runtime/callbacks.h"
#include "runtime/settings.h"

extern char** environ;

namespace ms_ascend_ops {
namespace device {
namespace {

// A program that is loaded into the device process: it must not find modules in the current folder.
constexpr const char* PROGRAM =
    "import sys; sys.path[:] = [p for p in sys.path if p] + [sys.argv.pop(1)]; "
    "from ms_ascend_ops.device.process import main; sys.exit(main(sys.argv[1:]))";

aclError FailAsForked()
{
    return Fail(RT_INTERNAL_ERROR,
                "the emulated device cannot be used in a process that was forked after it was set "
                "up; start such processes by spawn");
}

// MindSpore's Ascend backend makes an empty folder in the current one when it starts, for memory that it would swap
// out. It goes when the program ends, unless it was there or something is in it.
void RemoveSwapFolder()
{
    static char path[PATH_MAX];
    if (access("offload", F_OK) != 0 && getcwd(path, sizeof(path) - sizeof("/offload")) != nullptr) {
        std::strcat(path, "/offload");
        std::atexit([] { rmdir(path); });
    }
}

}  // namespace

Devices& TheDevices()
{
    static Devices* const devices = new Devices;  // threads may use it until the program has ended
    return *devices;
}

aclError Devices::CheckNumber(int64_t device) const
{
    if (device < 0 || device >= Count()) {
        return Fail(RT_INVALID_DEVICEID,
                    "device " + std::to_string(device) + " is not there: there " +
                        (Count() == 1 ? "is 1 device" : "are " + std::to_string(Count()) + " devices") +
                        " (MS_ASCEND_EMULATED_DEVICES)");
    }
    return SUCCESS;
}

aclError Devices::Open()
{
    std::lock_guard<std::mutex> lock(mutex_);
    if (forked_) {
        return FailAsForked();
    }
    if (session_ != nullptr) {
        return SUCCESS;
    }
    return OpenOnce();
}

aclError Devices::OpenOnce()
{
    const Settings& settings = TheSettings();
    if (!settings.error.empty()) {
        return Fail(INVALID_PARAM, settings.error);
    }
    sessionFile_ = memfd_create("ascend_session", MFD_CLOEXEC);
    if (sessionFile_ < 0 || ftruncate(sessionFile_, sizeof(Session)) != 0) {
        return Fail(RT_DEV_SETUP_ERROR, std::string("the session cannot be made: ") + std::strerror(errno));
    }
    void* const session = mmap(nullptr, sizeof(Session), PROT_READ | PROT_WRITE, MAP_SHARED, sessionFile_, 0);
    if (session == MAP_FAILED) {
        return Fail(RT_DEV_SETUP_ERROR, std::string("the session cannot be mapped: ") + std::strerror(errno));
    }
    std::vector<std::unique_ptr<Device>> devices;
    for (uint32_t number = 0; number < settings.devices; ++number) {
        devices.push_back(std::make_unique<Device>());
        devices.back()->memory = std::make_unique<DeviceMemory>(number, settings.memoryBytes);
        if (const aclError error = devices.back()->memory->Open()) {
            munmap(session, sizeof(Session));
            return error;
        }
    }
    devices_ = std::move(devices);
    auto* const made = static_cast<Session*>(session);
    made->deviceCount = settings.devices;
    made->checks = settings.checks ? 1 : 0;
    session_ = made;
    pthread_atfork(nullptr, nullptr, [] { TheDevices().ForgetInChild(); });
    std::atexit([] { TheDevices().StopAll(); });
    RemoveSwapFolder();
    return SUCCESS;
}

void Devices::ForgetInChild()
{
    forked_ = true;
    for (const auto& device : devices_) {
        if (device->socket >= 0) {
            close(device->socket);
            device->socket = -1;
        }
    }
}

aclError Devices::Start(uint32_t number)
{
    Device& device = *devices_[number];
    std::lock_guard<std::mutex> lock(device.mutex);
    if (device.socket >= 0) {
        return Ended(number) ? FailAsEnded(number) : static_cast<aclError>(SUCCESS);
    }
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
        return Fail(RT_DEV_SETUP_ERROR, std::string("no socket for a device process: ") + std::strerror(errno));
    }
    DeviceSlot& slot = session_->devices[number];
    slot.signal.store(0);
    slot.faultStream.store(0);
    slot.text[0] = 0;
    slot.state.store(static_cast<uint32_t>(DeviceState::STARTING));
    const aclError error = Spawn(number, sockets[1]);
    close(sockets[1]);
    if (error != SUCCESS) {
        close(sockets[0]);
        return error;
    }
    device.socket = sockets[0];
    device.endCode = SUCCESS;
    device.helper = std::thread([this, number, socket = sockets[0]] { Help(number, socket); });
    return SUCCESS;
}

aclError Devices::Spawn(uint32_t number, int socket)
{
    const Settings& settings = TheSettings();
    // The files must be at their numbers, and a file may stand in the way of another: first all go to high numbers.
    std::vector<int> files{socket, sessionFile_};
    for (const auto& device : devices_) {
        files.push_back(device->memory->File());
    }
    std::vector<int> copies;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (size_t i = 0; i < files.size(); ++i) {
        copies.push_back(fcntl(files[i], F_DUPFD_CLOEXEC, 100));
        posix_spawn_file_actions_adddup2(&actions, copies.back(), SOCKET_FILE + static_cast<int>(i));
    }
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);  // Ctrl-C is not for it
    const std::string parent = settings.package.substr(0, settings.package.rfind('/'));
    std::string text = std::to_string(number);
    const char* const arguments[] = {settings.python.c_str(),  "-c",   PROGRAM, parent.c_str(), text.c_str(),
                                     settings.kernels.c_str(), nullptr};
    pid_t pid = 0;
    const int error = posix_spawnp(&pid, settings.python.c_str(), &actions, &attributes,
                                   const_cast<char* const*>(arguments), environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    for (const int copy : copies) {
        close(copy);
    }
    if (error != 0) {
        return Fail(RT_DEV_SETUP_ERROR, "the process of device " + std::to_string(number) + " cannot be started (" +
                                            settings.python + "): " + std::strerror(error));
    }
    devices_[number]->pid = pid;
    return SUCCESS;
}

bool Devices::Ended(uint32_t device) const
{
    const auto state = static_cast<DeviceState>(session_->devices[device].state.load());
    return forked_ || (state != DeviceState::STARTING && state != DeviceState::READY);
}

// Answers the device process until it ends.
void Devices::Help(uint32_t number, int socket)
{
    HostRequest request;
    for (;;) {
        const ssize_t got = recv(socket, &request, sizeof(request), 0);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got != sizeof(request)) {
            break;
        }
        AnswerDevice(request);
    }
    NoteEnd(number);
}

// Says what ran when the device's process ended; which of several streams a kernel's thread belonged to is not known.
std::string Devices::Running(uint32_t number) const
{
    const uint32_t stream = session_->devices[number].faultStream.load();
    if (stream > 0) {
        return session_->streams[stream - 1].running;
    }
    std::string names;
    for (const StreamSlot& slot : session_->streams) {
        if (slot.device == number && slot.running[0] != 0) {
            names += (names.empty() ? "" : " or ") + std::string(slot.running);
        }
    }
    return names.empty() ? "the process" : names;
}

void Devices::NoteEnd(uint32_t number)
{
    Device& device = *devices_[number];
    DeviceSlot& slot = session_->devices[number];
    int status = 0;
    waitpid(device.pid, &status, 0);
    const std::string name = "device " + std::to_string(number);
    device.endCode = RT_LOST_HEARTBEAT;
    if (slot.signal.load() != 0) {
        const auto signal = static_cast<int>(slot.signal.load());
        device.endCode = RT_VECTOR_CORE_EXCEPTION;
        device.endText = name + ": " + Running(number) + " ended in " + strsignal(signal);
        if (signal == SIGSEGV || signal == SIGBUS) {
            const uint64_t address = slot.faultAddress;
            device.endText += IsDeviceAddress(address)
                                  ? ": it touched " + Memory(DeviceOfAddress(address) % Count()).Describe(address)
                                  : ": it touched an address that is not the device's";
        }
    } else if (slot.text[0] != 0) {
        device.endCode = RT_VECTOR_CORE_EXCEPTION;
        device.endText = name + ": " + Running(number) + ": " + slot.text;
    } else if (WIFSIGNALED(status)) {
        device.endText = name + ": its process was killed by signal " + std::to_string(WTERMSIG(status));
    } else {
        device.endText = name + ": its process ended with status " + std::to_string(WEXITSTATUS(status));
    }
    slot.state.store(static_cast<uint32_t>(DeviceState::ENDED));
    slot.answered.Wake();
    for (StreamSlot& stream : session_->streams) {
        stream.completed.Wake();
    }
    for (EventSlot& event : session_->events) {
        event.done.Wake();
    }
}

aclError Devices::FailAsEnded(uint32_t number)
{
    if (forked_) {
        return FailAsForked();
    }
    const Device& device = *devices_[number];
    return Fail(device.endCode, device.endText);
}

aclError Devices::Control(uint32_t number, ControlRequest request, bool waits)
{
    Device& device = *devices_[number];
    std::lock_guard<std::mutex> lock(device.mutex);
    DeviceSlot& slot = session_->devices[number];
    if (device.socket < 0) {
        return Fail(RT_NO_DEVICE, "device " + std::to_string(number) + " is not set up; call aclrtSetDevice");
    }
    request.number = waits ? ++device.lastRequest : 0;
    if (Ended(number)) {
        return FailAsEnded(number);
    }
    const bool sent = send(device.socket, &request, sizeof(request), MSG_NOSIGNAL) == sizeof(request);
    if (sent && !waits) {
        return SUCCESS;
    }
    request.number = sent ? request.number : ++device.lastRequest;  // the process is ending: nobody answers
    if (!slot.answered.Wait(request.number, [this, number] { return Ended(number) ? 0 : PATIENCE; })) {
        return FailAsEnded(number);
    }
    if (slot.answer.load() != 0) {
        return Fail(RT_MEMORY_ALLOCATION, "device " + std::to_string(number) + " cannot map memory: " +
                                              std::strerror(static_cast<int>(slot.answer.load())));
    }
    return SUCCESS;
}

void Devices::Stop(uint32_t number)
{
    Device& device = *devices_[number];
    std::lock_guard<std::mutex> lock(device.mutex);
    if (device.socket < 0) {
        return;
    }
    shutdown(device.socket, SHUT_RDWR);
    if (device.helper.joinable()) {
        device.helper.join();
    }
    close(device.socket);
    device.socket = -1;
    session_->devices[number].state.store(static_cast<uint32_t>(DeviceState::NONE));
    device.endCode = RT_NO_DEVICE;
    device.endText = "device " + std::to_string(number) + " was reset";
    device.lastRequest = session_->devices[number].answered.value.load();
    device.memory->Clear();
}

void Devices::StopAll()
{
    if (forked_) {
        return;
    }
    for (uint32_t number = 0; number < Count(); ++number) {
        Stop(number);
    }
}

}  // namespace device
}  // namespace ms_ascend_ops
