/*!
 * Implements the executor of the fast build, which runs the cores of a kernel on a persistent pool of threads.
 */
#include <sched.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <unordered_set>

#include "passes/lookups.h"
#include "runtime/core.h"
#include "runtime/executor.h"
#include "runtime/job.h"
#include "runtime/launch.h"
#include "runtime/non_temporal.h"
#include "runtime/thread_pool.h"

namespace AscendC {
namespace host {

namespace {

// Waking a thread costs about as much as moving this many bytes.
constexpr uint32_t MIN_BYTES_PER_CORE = 64 * 1024;
// Two threads get as many bytes each.
constexpr uint32_t MIN_SHARED_ROW_BYTES = 2 * MIN_BYTES_PER_CORE;
// A loop over rows (fused_loops.cpp) has no longer rows than this. Where longer rows have padding between them, every
// instruction is a pass.
constexpr uint32_t MAX_PADDED_ROW = 256;
// Tiles of this size fit the L1 data cache: of two buffers, one is in use at a time.
constexpr uint32_t CACHED_TILE_BYTES = 56 * 1024;
// From so many bytes of outputs on, the next tile is prefetched: smaller launches lie in the caches of the cores.
constexpr uint64_t LARGE_BYTES = 6ull << 20;

uint32_t DefaultThreadNum()
{
    if (const char* text = std::getenv("MS_ASCEND_OPS_NUM_THREADS")) {
        char* end = nullptr;
        const long count = std::strtol(text, &end, 10);
        const bool isNumber = *text >= '0' && *text <= '9' && *end == '\0';
        if (isNumber && count >= 1 && count <= static_cast<long>(MAX_THREADS)) {
            return static_cast<uint32_t>(count);
        }
        std::fprintf(stderr, "ms_ascend_ops: MS_ASCEND_OPS_NUM_THREADS must be 1 to %u, got '%s'; it is ignored\n",
                     MAX_THREADS, text);
    }
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) == 0) {
        const int count = CPU_COUNT(&set);
        return count < 1 ? 1 : (count > static_cast<int>(MAX_THREADS) ? MAX_THREADS : static_cast<uint32_t>(count));
    }
    return 1;
}

struct CallersThreads {
    ParallelFor parallelFor = nullptr;
    void* context = nullptr;
};
thread_local CallersThreads t_callersThreads;

// Remembers which launches wait for all cores, by the hashes of their forms. Each calling thread has its own.
class WaitingLaunches {
public:
    static WaitingLaunches& OfCaller()
    {
        static thread_local WaitingLaunches launches;
        return launches;
    }
    bool Has(size_t form) const { return forms_.count(form) > 0; }
    void Add(size_t form)
    {
        if (forms_.size() >= MOST) {
            forms_.clear();
        }
        forms_.insert(form);
    }

private:
    static constexpr size_t MOST = 4096;
    std::unordered_set<size_t> forms_;
};

// Returns whether the launch has run. Where a core comes to a barrier, the launch starts again: it writes all of its
// outputs anyway.
bool RunOnCallersThreads(Job& job, size_t form)
{
    const CallersThreads& threads = t_callersThreads;
    if (WaitingLaunches::OfCaller().Has(form)) {
        return false;
    }
    job.areCoresAtOnce = false;
    const auto task = [](void* data, size_t index) {
        Job& shared = *static_cast<Job*>(data);
        if (!shared.waits.load(std::memory_order_relaxed)) {
            RunBlock(shared, static_cast<uint32_t>(index));
        }
    };
    threads.parallelFor(threads.context, task, &job, job.blockDim);
    if (!job.waits.load(std::memory_order_acquire)) {
        return true;
    }
    WaitingLaunches::OfCaller().Add(form);
    job.areCoresAtOnce = true;
    job.trapped.store(false, std::memory_order_relaxed);
    job.reason.clear();
    return false;
}

// Holds the form of a launch, and the data that it points to.
class FormedLaunch {
public:
    FormedLaunch(const Job& job, uint64_t workspaceBytes, const ms_ascend_ops::LaunchMemory& memory,
                 std::string_view tiling)
        : isReplayable_(!tiling.empty())
    {
        key_.clear();
        Append(job.block);
        Append(job.blockDim);
        Append(job.large);
        Append(workspaceBytes);
        key_.append(tiling);
        const uint32_t count = static_cast<uint32_t>(memory.tensorCount);
        for (uint32_t i = 0; i < count; ++i) {
            spans_[i] = {memory.tensors[i].begin, memory.tensors[i].end};
            Append(spans_[i].end - spans_[i].begin);
        }
        const char* const workspace = reinterpret_cast<const char*>(job.workspace);
        spans_[count] = {workspace, workspace + workspaceBytes};
        form_ = {key_, spans_, count + 1, job.variant};
    }
    size_t Hash() const { return std::hash<std::string>()(key_); }
    const LaunchForm* Form() const { return isReplayable_ && !form_.TensorsOverlap() ? &form_ : nullptr; }

private:
    template <typename T>
    void Append(const T& value)
    {
        key_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }

    static thread_local std::string key_;  // one launch at a time; it keeps its memory
    const bool isReplayable_;
    Span spans_[ms_ascend_ops::MAX_TENSORS + 1];
    LaunchForm form_{};
};

thread_local std::string FormedLaunch::key_;

std::atomic<uint32_t> g_threadNum{0};
thread_local uint32_t t_threadNum = 0;
std::atomic<uint32_t> g_ubBytes{0};

// Returns the bytes of all tensors.
uint64_t BytesOf(const ms_ascend_ops::LaunchMemory& memory)
{
    uint64_t bytes = 0;
    for (int32_t i = 0; i < memory.tensorCount; ++i) {
        bytes += static_cast<uint64_t>(memory.tensors[i].end - memory.tensors[i].begin);
    }
    return bytes;
}

// The workspace is kept from launch to launch; each calling thread has its own.
GM_ADDR Workspace(uint64_t bytes)
{
    constexpr uint64_t ALIGNMENT = 512;  // as the runtime of the chip aligns it
    struct Buffer {
        ~Buffer() { std::free(data); }
        void* data = nullptr;
        uint64_t bytes = 0;
    };
    static thread_local Buffer buffer;
    if (buffer.bytes < bytes) {
        std::free(buffer.data);
        buffer.bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        buffer.data = std::aligned_alloc(ALIGNMENT, buffer.bytes);
        if (buffer.data == nullptr) {
            buffer.bytes = 0;
            throw std::bad_alloc();
        }
    }
    return static_cast<GM_ADDR>(buffer.data);
}

}  // namespace

// The class is in no unnamed namespace: tools that count instructions know its functions by their names.
class PoolExecutor final : public Executor {
public:
    uint32_t ThreadNum() const override
    {
        if (t_threadNum != 0) {
            return t_threadNum;
        }
        uint32_t count = g_threadNum.load(std::memory_order_relaxed);
        if (count == 0) {
            count = DefaultThreadNum();
            g_threadNum.store(count, std::memory_order_relaxed);
        }
        return count;
    }

    void SetThreadNum(uint32_t count) override
    {
        g_threadNum.store(count > MAX_THREADS ? MAX_THREADS : count, std::memory_order_relaxed);
    }

    void SetThreadNumOfCaller(uint32_t count) override { t_threadNum = count > MAX_THREADS ? MAX_THREADS : count; }

    void SetParallelForOfCaller(ParallelFor parallelFor, void* context) override
    {
        t_callersThreads = {parallelFor, context};
    }

    void SetUbBytes(uint32_t bytes) override
    {
        g_ubBytes.store(bytes >= UB_BYTES ? 0 : bytes, std::memory_order_relaxed);  // 0: all of it
    }

    ms_ascend_ops::Platform Platform() const override
    {
        ms_ascend_ops::Platform platform;
        platform.coreNum = ThreadNum();
        const uint32_t ubBytes = g_ubBytes.load(std::memory_order_relaxed);
        platform.ubBytes = ubBytes == 0 ? UB_BYTES : ubBytes;
        platform.minBytesPerCore = MIN_BYTES_PER_CORE;
        // With the tiles of a chip, rows are as long as there, too.
        platform.maxPaddedRow = ubBytes == 0 ? MAX_PADDED_ROW : platform.maxPaddedRow;
        platform.tileBytes = ubBytes == 0 ? CACHED_TILE_BYTES : platform.tileBytes;
        platform.minSharedRowBytes = ubBytes == 0 ? MIN_SHARED_ROW_BYTES : platform.minSharedRowBytes;
        platform.minPieceBytes = ubBytes == 0 ? MIN_BYTES_PER_CORE : platform.minPieceBytes;
        return platform;
    }

    void Launch(const ms_ascend_ops::LaunchConfig& config, const ms_ascend_ops::LaunchMemory& memory,
                std::string_view tiling, BlockFn block, void* kernel, KernelType type) override
    {
        Job job;
        job.group = type == KernelType::MIX_AIC_1_2 && config.blockDim % 2 == 0 ? 2 : 1;
        job.block = block;
        job.kernel = kernel;
        job.workspace = config.workspaceBytes == 0    ? nullptr
                        : memory.workspace != nullptr ? reinterpret_cast<GM_ADDR>(memory.workspace)
                                                      : Workspace(config.workspaceBytes);
        job.blockDim = config.blockDim;
        job.coresMeet = config.coresMeet;
        job.large = memory.outputBytes >= LARGE_BYTES;
        const uint64_t bytes = BytesOf(memory);
        job.variant = {BypassesCaches(bytes), UsesLookups(bytes)};
        FormedLaunch formed(job, config.workspaceBytes, memory, tiling);
        job.form = formed.Form();
        if (job.blockDim == 1) {
            RunBlock(job, 0);
        } else if (t_callersThreads.parallelFor == nullptr || !RunOnCallersThreads(job, formed.Hash())) {
            RunOnPool(job);
        }
        if (job.trapped.load(std::memory_order_acquire)) {
            throw Trapped(job.reason);
        }
    }
    void WaitForAllBlocks() override { WaitAtBarrier(); }
};

Executor& TheExecutor()
{
    static PoolExecutor executor;
    return executor;
}

}  // namespace host
}  // namespace AscendC
