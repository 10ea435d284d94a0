/*!
 * Launches: the cores of a kernel on a persistent pool of threads.
 */
#ifndef ASCENDC_HOST_LAUNCH_H
#define ASCENDC_HOST_LAUNCH_H

#include <cstdint>
#include <string_view>
#include <type_traits>

#include "observe.h"
#include "primitives/launch_config.h"
#include "ranges.h"
#include "types.h"

namespace AscendC {
namespace host {

// What tiling functions are told about this machine: one core for each thread, and its Unified Buffer (core.h).
ms_ascend_ops::Platform HostPlatform();

// How much of the Unified Buffer tiling functions are told of; 0: all. With as much as the chip has, rows that need
// several tiles are summed up in the same pieces as there, to the bit.
void SetUbBytes(uint32_t bytes);

// Threads that play cores, the calling one included. Initially MS_ASCEND_OPS_NUM_THREADS or the number of CPUs this
// process may use. Setting 0 restores that.
uint32_t GetThreadNum();
void SetThreadNum(uint32_t count);

// The vector unit of this library that runs: "native", or in a portable build "x86-64-v2", "-v3" or "-v4".
const char* VectorUnitName();

using BlockFn = void (*)(void* kernel, GM_ADDR workspace);

// What Trap throws: ends the kernel on this core.
struct Trapped {};
constexpr const char* TRAPPED = "the kernel stopped itself (Trap): an input has a value that is not allowed";

// What a kernel works on.
struct LaunchMemory {
    Span tensors[ms_ascend_ops::MAX_TENSORS];
    uint32_t tensorCount = 0;
    uint64_t outputBytes = 0;  // what it writes in all; inputs of launches with a large one are prefetched
};

// Runs `block` once for each of config.blockDim cores and returns when all have ended. `tiling`: all that the kernel
// goes by besides its tensors, as bytes: launches with the same may be replayed (replay.h), those without any never
// are. Throws std::runtime_error when a core trapped.
void LaunchBlocks(const ms_ascend_ops::LaunchConfig& config, const LaunchMemory& memory, std::string_view tiling,
                  BlockFn block, void* kernel);

template <class KERNEL>
void Launch(const ms_ascend_ops::LaunchConfig& config, const LaunchMemory& memory, std::string_view tiling,
            KERNEL&& kernel)
{
    LaunchBlocks(
        config, memory, tiling,
        [](void* self, GM_ADDR workspace) { (*static_cast<std::remove_reference_t<KERNEL>*>(self))(workspace); },
        &kernel);
}

template <class TILING>
std::string_view BytesOf(const TILING& tiling)
{
    return {reinterpret_cast<const char*>(&tiling), sizeof(tiling)};
}

// Barrier between the cores of the running launch.
void WaitForAllBlocks();

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_LAUNCH_H
