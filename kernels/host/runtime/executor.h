/*!
 * An executor carries out the launches of a build. That of the fast build plays cores on a pool of threads
 * (pool_executor.cpp). Observed builds, which check or trace, play them one after the other and report each call
 * (observed/serial_executor.cpp). Nothing else of the host layer knows which of them runs.
 */
#ifndef ASCENDC_HOST_RUNTIME_EXECUTOR_H
#define ASCENDC_HOST_RUNTIME_EXECUTOR_H

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/types.h"
#include "interface/launch_config.h"

namespace AscendC {
namespace host {

using BlockFn = void (*)(void* kernel, GM_ADDR workspace);

// The cores of a launch are, in CANN's terms, vector cores, or groups of a cube core and two vector cores. Here the
// vector cores play the cube core's part, too. With an odd number of threads a group has one of them
// (KERNEL_TYPE_MIX_AIC_1_1), but in an observed build, which adds one.
enum class KernelType : uint8_t { AIV_ONLY, MIX_AIC_1_2 };

// A caller with threads of its own runs the cores of the calling thread's launches: it calls `task(data, i)` for every
// i below `count`, in any order, on any threads, maybe one after the other.
using ParallelFor = void (*)(void* context, void (*task)(void* data, size_t index), void* data, size_t count);

class Executor {
public:
    // Returns the machine as tiling functions see it: one core for each thread, and its Unified Buffer (core.h).
    virtual ms_ascend_ops::Platform Platform() const = 0;
    // Sets how much of the Unified Buffer tiling functions are told of; 0: all. With as much as the chip has, rows that
    // need several tiles are summed up in the same pieces as there, to the bit.
    virtual void SetUbBytes(uint32_t bytes) = 0;

    // These threads play cores, the calling one included. Initially they are MS_ASCEND_OPS_NUM_THREADS or the number of
    // CPUs this process may use. Setting 0 restores that.
    virtual uint32_t ThreadNum() const = 0;
    virtual void SetThreadNum(uint32_t count) = 0;
    // Sets the threads of launches of the calling thread; 0: as for all others.
    virtual void SetThreadNumOfCaller(uint32_t /*count*/) {}
    // Cores that wait for each other (SyncAll) still get threads of this library, as they must run at once. Null: all
    // do.
    virtual void SetParallelForOfCaller(ParallelFor /*parallelFor*/, void* /*context*/) {}

    // Runs `block` once for each of config.blockDim cores and returns when all have ended. Inputs of launches with
    // large outputs are prefetched. blockDim counts vector cores, whatever the type. `tiling`: all that the kernel goes
    // by besides its tensors, as bytes: launches with the same may be replayed (trace_cache.h), those without any never
    // are. Throws Trapped when a core did.
    virtual void Launch(const ms_ascend_ops::LaunchConfig& config, const ms_ascend_ops::LaunchMemory& memory,
                        std::string_view tiling, BlockFn block, void* kernel, KernelType type) = 0;
    // A core of the running launch waits for all others.
    virtual void WaitForAllBlocks() = 0;
    // Are instructions carried out? The traced build need not: it only counts.
    virtual bool Executes() const { return true; }

protected:
    ~Executor() = default;
};

// Returns the executor of this build.
Executor& TheExecutor();

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_RUNTIME_EXECUTOR_H
