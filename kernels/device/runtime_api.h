/*!
 * Declares what libascendcl offers to the other libraries of the emulated device beside CANN's names.
 */
#ifndef MS_ASCEND_OPS_DEVICE_RUNTIME_API_H
#define MS_ASCEND_OPS_DEVICE_RUNTIME_API_H

#include <cstddef>
#include <cstdint>

extern "C" {

// Puts a call (protocol/call.h) into a stream of the current device; it runs in the device process, in the order of the
// stream. Returns an ACL error code; what goes wrong later is told by the next synchronisation of the stream.
int MsAscendDeviceCall(void* stream, const void* call, size_t bytes);

// The chip of the current device: its name (as "Ascend910B2"), its kind for packages (as "ascend910b") and its sizes.
struct MsAscendDeviceChip {
    const char* soc;
    const char* computeUnit;
    uint32_t cubeCores;
    uint32_t vectorCores;
    uint64_t ubBytes;  // as CANN reports it: what it keeps for itself is in it
    uint64_t l1Bytes;
    uint64_t l0aBytes;
    uint64_t l0bBytes;
    uint64_t l0cBytes;
    uint64_t l2Bytes;
    uint64_t memoryBytes;
};
const MsAscendDeviceChip* MsAscendDeviceGetChip();

// The library and function in which a return address lies, for messages.
const char* MsAscendDeviceCallerAt(const void* address);

// Sets the text that aclGetRecentErrMsg returns next in this thread, and logs it.
void MsAscendDeviceSetError(const char* text);

}  // extern "C"

#endif  // MS_ASCEND_OPS_DEVICE_RUNTIME_API_H
