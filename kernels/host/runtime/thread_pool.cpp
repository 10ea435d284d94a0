#include "runtime/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace AscendC {
namespace host {

namespace {

// Worker i plays block i + 1 of a job, the calling thread plays block 0, and then those that no worker has begun yet:
// beside MindSpore's threads one may wake late. One job at a time. Behind the last barrier of block 0 every block has
// begun, so none of those is left.
class Pool {
public:
    void Run(Job& job)
    {
        std::lock_guard<std::mutex> launch(launchMutex_);
        while (workerCount_ < job.blockDim - 1) {
            std::thread([this, index = workerCount_, seen = epoch_.load()] { Work(index, seen); }).detach();
            ++workerCount_;
        }
        pending_.store(job.blockDim - 1, std::memory_order_relaxed);
        {
            std::lock_guard<std::mutex> lock(mutex_);
            std::fill_n(begun_, job.blockDim, false);
            job_ = &job;
            blockDim_ = job.blockDim;
            epoch_.fetch_add(1, std::memory_order_release);
        }
        wake_.notify_all();
        RunBlock(job, 0);
        for (uint32_t blockIdx = job.blockDim - 1; blockIdx > 0; --blockIdx) {
            if (Begin(blockIdx)) {
                RunBlock(job, blockIdx);
                pending_.fetch_sub(1, std::memory_order_relaxed);
            }
        }
        for (uint32_t spins = 0; pending_.load(std::memory_order_acquire) != 0; ++spins) {
            if (spins < SPINS) {
                Pause();
            } else {
                std::this_thread::yield();
            }
        }
    }

private:
    // Whether the block is the caller's to run.
    bool Begin(uint32_t blockIdx)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        return !std::exchange(begun_[blockIdx], true);
    }

    void Work(uint32_t index, uint64_t seen)
    {
        for (;;) {
            for (uint32_t spins = 0; epoch_.load(std::memory_order_acquire) == seen && spins < SPINS; ++spins) {
                Pause();
            }
            Job* job = nullptr;
            {
                std::unique_lock<std::mutex> lock(mutex_);
                wake_.wait(lock, [&] { return epoch_.load(std::memory_order_relaxed) != seen; });
                seen = epoch_.load(std::memory_order_relaxed);
                // A job without a block for this worker may have ended already: only its size is looked at.
                const bool mine = index + 1 < blockDim_ && !std::exchange(begun_[index + 1], true);
                job = mine ? job_ : nullptr;
            }
            if (job != nullptr) {
                RunBlock(*job, index + 1);
                pending_.fetch_sub(1, std::memory_order_acq_rel);
            }
        }
    }

    std::mutex launchMutex_;
    std::mutex mutex_;  // job_, blockDim_, begun_ and the growth of epoch_
    std::condition_variable wake_;
    std::atomic<uint64_t> epoch_{0};
    std::atomic<uint32_t> pending_{0};
    Job* job_ = nullptr;
    uint32_t blockDim_ = 0;
    bool begun_[MAX_THREADS] = {};  // by block
    uint32_t workerCount_ = 0;
};

// Never destroyed: its threads live as long as the process. A forked child has none of them, so it starts afresh.
Pool* g_pool = nullptr;
std::once_flag g_poolOnce;

Pool& ThePool()
{
    std::call_once(g_poolOnce, [] {
        g_pool = new Pool;
        pthread_atfork(nullptr, nullptr, [] { g_pool = new Pool; });
    });
    return *g_pool;
}

}  // namespace

void RunOnPool(Job& job)
{
    ThePool().Run(job);
}

}  // namespace host
}  // namespace AscendC
