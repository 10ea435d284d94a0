/*!
 * Implements ACL's copies and sets. Synchronous ones run at once, without regard to any stream, as CANN says of them.
 */
#include "runtime/acl_api.h"
#include "runtime/host_memory.h"

using namespace ms_ascend_ops::device;

namespace {

enum CopyKind : int32_t {
    HOST_TO_HOST,
    HOST_TO_DEVICE,
    DEVICE_TO_HOST,
    DEVICE_TO_DEVICE,
    ANY_COPY,
    HOST_TO_BUFFER_TO_DEVICE,
    INNER_DEVICE,
    INTER_DEVICE
};

CopyCommand MakeCopy(void* destination, const void* source, size_t bytes, size_t rows = 1, size_t destinationPitch = 0,
                     size_t sourcePitch = 0)
{
    return {{0, CommandKind::COPY, 0, 0},
            reinterpret_cast<uint64_t>(destination),
            reinterpret_cast<uint64_t>(source),
            bytes,
            rows,
            destinationPitch,
            sourcePitch};
}

std::string CountOf(uint64_t bytes)
{
    return std::to_string(bytes) + " bytes";
}

// `what` is 2D if rows are given.
aclError CheckCopy(const char* function, const CopyCommand& command, uint64_t room)
{
    const std::string name(function);
    RETURN_IF_ERROR(CheckPointer(function, "dst", reinterpret_cast<const void*>(command.destination)));
    RETURN_IF_ERROR(CheckPointer(function, "src", reinterpret_cast<const void*>(command.source)));
    if (command.bytes > room) {
        return Fail(INVALID_PARAM, name + ": " + CountOf(command.bytes) + " do not fit into the " + CountOf(room) +
                                       " that the destination is said to have");
    }
    if (command.rows > 1 && command.bytes > command.sourcePitch) {
        return Fail(INVALID_PARAM, name + ": rows of " + CountOf(command.bytes) +
                                       " are longer than the source's pitch, " + CountOf(command.sourcePitch));
    }
    for (uint64_t row = 0; row < command.rows; ++row) {
        RETURN_IF_ERROR(CheckRange(function, command.destination + row * command.destinationPitch, command.bytes));
        RETURN_IF_ERROR(CheckRange(function, command.source + row * command.sourcePitch, command.bytes));
    }
    const bool between = IsDeviceAddress(command.destination) && IsDeviceAddress(command.source);
    if (between && !ArePeers(DeviceOfAddress(command.destination), DeviceOfAddress(command.source))) {
        return Fail(RT_PARAM_INVALID, name + ": devices " + std::to_string(DeviceOfAddress(command.source)) + " and " +
                                          std::to_string(DeviceOfAddress(command.destination)) +
                                          " do not reach each other; call aclrtDeviceEnablePeerAccess");
    }
    return SUCCESS;
}

// Both ends must lie where the kind says.
aclError CheckKind(const char* function, const CopyCommand& command, int32_t kind)
{
    const std::string name(function);
    if (kind < HOST_TO_HOST || kind > INTER_DEVICE) {
        return Fail(INVALID_PARAM, name + ": kind must be an aclrtMemcpyKind, got " + std::to_string(kind));
    }
    const bool toDevice = IsDeviceAddress(command.destination);
    const bool fromDevice = IsDeviceAddress(command.source);
    if (!toDevice && !fromDevice) {
        return Fail(RT_FEATURE_NOT_SUPPORT, name + ": copies within the host are not asynchronous");
    }
    const bool wantsToDevice = kind != HOST_TO_HOST && kind != DEVICE_TO_HOST;
    const bool wantsFromDevice = kind == DEVICE_TO_HOST || kind == DEVICE_TO_DEVICE || kind >= INNER_DEVICE;
    if (kind != ANY_COPY && (toDevice != wantsToDevice || fromDevice != wantsFromDevice)) {
        const auto ends = [](bool from, bool to) {
            return std::string("from ") + (from ? "device" : "host") + " to " + (to ? "device" : "host");
        };
        return Fail(RT_PARAM_INVALID, name + ": kind " + std::to_string(kind) + " copies " +
                                          ends(wantsFromDevice, wantsToDevice) + ", but the addresses are " +
                                          ends(fromDevice, toDevice));
    }
    return SUCCESS;
}

aclError RunNow(const char* function, const CopyCommand& command, uint64_t room)
{
    RETURN_IF_ERROR(TheDevices().Open());
    RETURN_IF_ERROR(CheckCopy(function, command, room));
    return CopyRows(command);
}

aclError RunInStream(const char* function, CopyCommand command, uint64_t room, int32_t kind, void* handle)
{
    Stream* stream = nullptr;
    RETURN_IF_ERROR(FindStream(handle, &stream));
    RETURN_IF_ERROR(CheckKind(function, command, kind));
    RETURN_IF_ERROR(CheckCopy(function, command, room));
    const bool toDevice = IsDeviceAddress(command.destination);
    const bool within = toDevice && IsDeviceAddress(command.source);
    const bool returnsLater = within || IsPinned(toDevice ? command.source : command.destination);
    if (!returnsLater && stream->capture.load() == nullptr && TheSettings().trace.empty() && HasCompleted(stream)) {
        RETURN_IF_ERROR(CheckAlive(stream));
        return CopyRows(command);
    }
    RETURN_IF_ERROR(Submit(stream, &command.header, sizeof(command)));
    return returnsLater || stream->capture.load() != nullptr ? static_cast<aclError>(SUCCESS) : Synchronize(stream);
}

aclError CheckFill(const char* function, uint64_t address, uint64_t room, uint64_t bytes)
{
    RETURN_IF_ERROR(CheckPointer(function, "devPtr", reinterpret_cast<const void*>(address)));
    if (bytes > room) {
        return Fail(INVALID_PARAM, std::string(function) + ": " + CountOf(bytes) + " do not fit into the " +
                                       CountOf(room) + " that are said to be there");
    }
    return CheckRange(function, address, bytes);
}

}  // namespace

ACL_API aclError aclrtMemcpy(void* destination, size_t room, const void* source, size_t bytes, int32_t)
{
    return RunNow("aclrtMemcpy", MakeCopy(destination, source, bytes), room);
}

ACL_API aclError aclrtMemcpyAsync(void* destination, size_t room, const void* source, size_t bytes, int32_t kind,
                                  void* stream)
{
    return RunInStream("aclrtMemcpyAsync", MakeCopy(destination, source, bytes), room, kind, stream);
}

ACL_API aclError aclrtMemcpyAsyncWithCondition(void* destination, size_t room, const void* source, size_t bytes,
                                               int32_t kind, void* stream)
{
    return RunInStream("aclrtMemcpyAsyncWithCondition", MakeCopy(destination, source, bytes), room, kind, stream);
}

ACL_API aclError aclrtMemcpy2d(void* destination, size_t destinationPitch, const void* source, size_t sourcePitch,
                               size_t width, size_t height, int32_t)
{
    return RunNow("aclrtMemcpy2d", MakeCopy(destination, source, width, height, destinationPitch, sourcePitch),
                  destinationPitch);
}

ACL_API aclError aclrtMemcpy2dAsync(void* destination, size_t destinationPitch, const void* source, size_t sourcePitch,
                                    size_t width, size_t height, int32_t kind, void* stream)
{
    return RunInStream("aclrtMemcpy2dAsync",
                       MakeCopy(destination, source, width, height, destinationPitch, sourcePitch), destinationPitch,
                       kind, stream);
}

ACL_API aclError aclrtMemset(void* address, size_t room, int32_t value, size_t bytes)
{
    const auto number = reinterpret_cast<uint64_t>(address);
    RETURN_IF_ERROR(TheDevices().Open());
    RETURN_IF_ERROR(CheckFill("aclrtMemset", number, room, bytes));
    return FillNow(number, value, bytes);
}

ACL_API aclError aclrtMemsetAsync(void* address, size_t room, int32_t value, size_t bytes, void* handle)
{
    const auto number = reinterpret_cast<uint64_t>(address);
    Stream* stream = nullptr;
    RETURN_IF_ERROR(FindStream(handle, &stream));
    RETURN_IF_ERROR(CheckFill("aclrtMemsetAsync", number, room, bytes));
    if (!IsDeviceAddress(number)) {
        return Fail(RT_PARAM_INVALID, "aclrtMemsetAsync: " + Hex(number) + " is not device memory");
    }
    FillCommand command{{0, CommandKind::FILL, 0, 0}, number, bytes, static_cast<uint64_t>(value)};
    return Submit(stream, &command.header, sizeof(command));
}
