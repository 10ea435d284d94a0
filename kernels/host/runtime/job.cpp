#include "runtime/job.h"

#include <thread>

#include "runtime/core.h"
#include "runtime/default_arithmetic.h"
#include "runtime/launch.h"
#include "runtime/non_temporal.h"

namespace AscendC {
namespace host {

namespace {

thread_local Job* t_job = nullptr;

}  // namespace

void Pause()
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

void RunBlock(Job& job, uint32_t blockIdx)
{
    Core& core = Core::Current();
    const DefaultArithmetic arithmetic;
    core.Begin(blockIdx, {job.blockDim, job.group}, job.large, job.variant);
    Job* outer = t_job;
    t_job = &job;
    try {
        if (!core.Replay(job.form)) {
            job.block(job.kernel, job.workspace);
            core.Finish();
        }
    } catch (const Trapped& trap) {  // instructions recorded since are dropped when its next block begins
        const std::lock_guard<std::mutex> lock(job.crowd);
        if (!job.trapped.exchange(true, std::memory_order_acq_rel)) {
            job.reason = trap.what();
        }
        job.wake.notify_all();
    }
    if (job.variant.nonTemporal) {
        FenceNonTemporalStores();
    }
    t_job = outer;
}

void WaitAtBarrier()
{
    Job& job = *t_job;
    if (!job.areCoresAtOnce) {
        job.waits.store(true, std::memory_order_release);
        throw Trapped("");
    }
    if (job.variant.nonTemporal) {
        FenceNonTemporalStores();
    }
    const uint32_t phase = job.phase.load(std::memory_order_acquire);
    if (job.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == job.blockDim) {
        const std::lock_guard<std::mutex> lock(job.crowd);
        job.arrived.store(0, std::memory_order_relaxed);
        job.phase.store(phase + 1, std::memory_order_release);
        job.wake.notify_all();
        return;
    }
    if (job.blockDim > TheExecutor().ThreadNum()) {
        std::unique_lock<std::mutex> lock(job.crowd);
        job.wake.wait(lock, [&] { return job.phase.load() != phase || job.trapped.load(); });
        if (job.phase.load() == phase) {
            throw Trapped("");  // that core never comes here
        }
        return;
    }
    for (uint32_t spins = 0; job.phase.load(std::memory_order_acquire) == phase; ++spins) {
        if (job.trapped.load(std::memory_order_acquire)) {
            throw Trapped("");  // that core never comes here
        }
        if (spins < SPINS) {
            Pause();
        } else {
            std::this_thread::yield();
        }
    }
}

}  // namespace host
}  // namespace AscendC
