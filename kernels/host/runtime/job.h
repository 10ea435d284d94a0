/*!
 * A job is a launch that runs: its blocks share this, whichever threads play them.
 */
#ifndef ASCENDC_HOST_RUNTIME_JOB_H
#define ASCENDC_HOST_RUNTIME_JOB_H

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>

#include "ir/loop_form.h"
#include "runtime/executor.h"
#include "runtime/trace_cache.h"

namespace AscendC {
namespace host {

// About 20 us: kernels of one network follow each other within that, and waking a sleeping thread costs as much.
constexpr uint32_t SPINS = 2000;
void Pause();  // between two of them

struct Job {
    BlockFn block;
    void* kernel;
    GM_ADDR workspace;
    uint32_t blockDim;
    uint32_t group;  // so many of the blocks share a cube core
    bool coresMeet;  // cores may wait for each other
    bool large;
    LoopVariant variant;
    const LaunchForm* form;            // null: not to be replayed
    std::atomic<uint32_t> arrived{0};  // at the barrier
    std::atomic<uint32_t> phase{0};
    std::atomic<bool> trapped{false};
    std::string reason;              // of the first core that trapped
    bool areCoresAtOnce = true;      // all of them run
    std::atomic<bool> waits{false};  // a core wanted to wait for the others, and could not
    std::mutex crowd;                // where there are more cores than threads can run, they sleep at the barrier
    std::condition_variable wake;
};

// Runs one block in the calling thread.
void RunBlock(Job& job, uint32_t blockIdx);
// Waits for the other blocks of the job that the calling thread runs one of.
void WaitAtBarrier();

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_RUNTIME_JOB_H
