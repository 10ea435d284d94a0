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

// Blocks that may wait for each other have a thread each: worker i plays block i + 1, the calling thread block 0.
// Others share as many threads as the library has: of n, thread i plays blocks i, i + n ..., the same in every launch,
// as their cores have recorded them (trace_cache.h). A thread that has played its own goes on with those that nobody
// has begun yet: beside MindSpore's threads a worker may wake late. Behind the last barrier of block 0 every block has
// begun, so there are none then. There is one job at a time.
class Pool {
public:
    void Run(Job& job)
    {
        std::lock_guard<std::mutex> launch(launchMutex_);
        const uint32_t threads = job.coresMeet ? job.blockDim : std::min(job.blockDim, TheExecutor().ThreadNum());
        while (workerCount_ < threads - 1) {
            std::thread([this, index = workerCount_, seen = epoch_.load()] { Work(index, seen); }).detach();
            ++workerCount_;
        }
        pending_.store(job.blockDim, std::memory_order_relaxed);
        uint64_t epoch = 0;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            std::fill_n(begun_, job.blockDim, false);
            job_ = &job;
            blockDim_ = job.blockDim;
            threads_ = threads;
            epoch = epoch_.fetch_add(1, std::memory_order_release) + 1;
        }
        wake_.notify_all();
        Play(job, epoch, 0, job.blockDim, threads);
        for (uint32_t spins = 0; pending_.load(std::memory_order_acquire) != 0; ++spins) {
            if (spins < SPINS) {
                Pause();
            } else {
                std::this_thread::yield();
            }
        }
    }

private:
    // Says whether the block is this thread's to run. A job that has ended has none left.
    bool Begin(uint64_t epoch, uint32_t blockIdx)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        return epoch_.load(std::memory_order_relaxed) == epoch && !std::exchange(begun_[blockIdx], true);
    }

    // Behind its last block the job may have ended.
    void Play(Job& job, uint64_t epoch, uint32_t first, uint32_t blockDim, uint32_t threads)
    {
        for (uint32_t blockIdx = first; blockIdx < blockDim; blockIdx += threads) {
            PlayOne(job, epoch, blockIdx);
        }
        if (first == 0 || threads < blockDim) {
            for (uint32_t blockIdx = blockDim - 1; blockIdx > 0; --blockIdx) {
                PlayOne(job, epoch, blockIdx);
            }
        }
    }

    void PlayOne(Job& job, uint64_t epoch, uint32_t blockIdx)
    {
        if (Begin(epoch, blockIdx)) {
            RunBlock(job, blockIdx);
            pending_.fetch_sub(1, std::memory_order_acq_rel);
        }
    }

    void Work(uint32_t index, uint64_t seen)
    {
        for (;;) {
            // More threads than can run would keep each other from it.
            const uint32_t most = index + 1 < TheExecutor().ThreadNum() ? SPINS : 0;
            for (uint32_t spins = 0; epoch_.load(std::memory_order_acquire) == seen && spins < most; ++spins) {
                Pause();
            }
            Job* job = nullptr;
            uint32_t blockDim = 0;
            uint32_t threads = 0;
            {
                std::unique_lock<std::mutex> lock(mutex_);
                wake_.wait(lock, [&] { return epoch_.load(std::memory_order_relaxed) != seen; });
                seen = epoch_.load(std::memory_order_relaxed);
                blockDim = blockDim_;
                threads = threads_;
                // A job without a block for this worker may have ended already: only its size is looked at.
                const bool mine = index + 1 < threads && !std::exchange(begun_[index + 1], true);
                job = mine ? job_ : nullptr;
            }
            if (job != nullptr) {
                RunBlock(*job, index + 1);
                pending_.fetch_sub(1, std::memory_order_acq_rel);
                Play(*job, seen, index + 1 + threads, blockDim, threads);
            }
        }
    }

    std::mutex launchMutex_;
    std::mutex mutex_;  // job_ and what is said of it, begun_ and the growth of epoch_
    std::condition_variable wake_;
    std::atomic<uint64_t> epoch_{0};
    std::atomic<uint32_t> pending_{0};
    Job* job_ = nullptr;
    uint32_t blockDim_ = 0;
    uint32_t threads_ = 0;          // threads that play the job
    bool begun_[MAX_THREADS] = {};  // by block
    uint32_t workerCount_ = 0;
};

// It is never destroyed: its threads live as long as the process. A forked child has none of them, so it starts afresh.
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
