/*!
 * Launches: the cores of a kernel on a persistent pool of threads.
 */
#ifndef ASCENDC_HOST_RUNTIME_LAUNCH_H
#define ASCENDC_HOST_RUNTIME_LAUNCH_H

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "api/types.h"
#include "interface/launch_config.h"
#include "observed/observe.h"

namespace AscendC {
namespace host {

// This machine as tiling functions see it: one core for each thread, and its Unified Buffer (core.h).
ms_ascend_ops::Platform HostPlatform();

// How much of the Unified Buffer tiling functions are told of; 0: all. With as much as the chip has, rows that need
// several tiles are summed up in the same pieces as there, to the bit.
void SetUbBytes(uint32_t bytes);

// Threads that play cores, the calling one included. Initially MS_ASCEND_OPS_NUM_THREADS or the number of CPUs this
// process may use. Setting 0 restores that.
uint32_t GetThreadNum();
void SetThreadNum(uint32_t count);
// For launches of the calling thread; 0: as for all others.
void SetThreadNumOfCaller(uint32_t count);
// Who has threads of its own runs the cores of the calling thread's launches: it calls `task(data, i)` for every i
// below `count`, in any order, on any threads, maybe one after the other. Cores that wait for each other (SyncAll)
// still get threads of this library, as they must run at once. Null: all do.
using ParallelFor = void (*)(void* context, void (*task)(void* data, size_t index), void* data, size_t count);
void SetParallelForOfCaller(ParallelFor parallelFor, void* context);

// The vector unit of this library that runs: "native", or in a portable build "x86-64-v2", "-v3" or "-v4".
const char* VectorUnitName();

using BlockFn = void (*)(void* kernel, GM_ADDR workspace);

// What the cores of a launch are, in CANN's terms: vector cores, or groups of a cube core and two vector cores. Here
// the vector cores play the cube core's part, too. With an odd number of threads a group has one of them
// (KERNEL_TYPE_MIX_AIC_1_1), but in an observed build, which adds one.
enum class KernelType : uint8_t { AIV_ONLY, MIX_AIC_1_2 };

// Ends the kernel on this core, and with it the launch: thrown by Trap and by Fail.
struct Trapped : std::runtime_error {
    using std::runtime_error::runtime_error;
};
constexpr const char* TRAPPED = "the kernel stopped itself (Trap): an input has a value that is not allowed";

// Runs a launch. A kernel that stopped itself can say no more than that: `rules` say which values it takes.
template <class LAUNCH>
void WithValueRules(const char* rules, LAUNCH&& launch)
{
    try {
        launch();
    } catch (const Trapped& trap) {
        if (std::string_view(trap.what()) != TRAPPED) {
            throw;
        }
        throw Trapped(std::string(TRAPPED) + ": " + rules);
    }
}

// Runs `block` once for each of config.blockDim cores and returns when all have ended. Inputs of launches with large
// outputs are prefetched. blockDim counts vector cores, whatever the type. `tiling`: all that the kernel goes by
// besides its tensors, as bytes: launches with the same may be replayed (trace_cache.h), those without any never are.
// Throws Trapped when a core did.
void LaunchBlocks(const ms_ascend_ops::LaunchConfig& config, const ms_ascend_ops::LaunchMemory& memory,
                  std::string_view tiling, BlockFn block, void* kernel, KernelType type = KernelType::AIV_ONLY);

template <class KERNEL>
void Launch(const ms_ascend_ops::LaunchConfig& config, const ms_ascend_ops::LaunchMemory& memory,
            std::string_view tiling, KERNEL&& kernel, KernelType type = KernelType::AIV_ONLY)
{
    LaunchBlocks(
        config, memory, tiling,
        [](void* self, GM_ADDR workspace) { (*static_cast<std::remove_reference_t<KERNEL>*>(self))(workspace); },
        &kernel, type);
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

#endif  // ASCENDC_HOST_RUNTIME_LAUNCH_H
