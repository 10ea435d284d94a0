/*!
 * Implements the executor of observed builds, which plays the cores of the chip one at a time.
 */
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "observed/hooks.h"
#include "observed/run.h"
#include "observed/settings.h"
#include "runtime/launch.h"

namespace AscendC {
namespace host {
namespace {

constexpr uint32_t CHIP_CORES = 48;  // vector cores of an Atlas A2
constexpr uint32_t MAX_CORES = 256;

// Hands the turn from core to core.
class Turns {
public:
    explicit Turns(uint32_t cores) : states_(cores), wake_(cores) {}

    // Waits for this core's first turn.
    void Begin(uint32_t core)
    {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_[core].wait(lock, [&] { return turn_ == core; });
    }
    void WaitForAll(uint32_t core)
    {
        std::unique_lock<std::mutex> lock(mutex_);
        states_[core] = State::WAITING;
        GiveAway(core);
        wake_[core].wait(lock, [&] { return turn_ == core; });
        if (trapped_) {  // a core will never be here
            throw Trapped("");
        }
    }
    void End(uint32_t core)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        states_[core] = State::ENDED;
        GiveAway(core);
    }
    void Trap(uint32_t core, const char* reason)
    {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            if (!std::exchange(trapped_, true)) {
                reason_ = reason;
            }
        }
        End(core);
    }
    bool HasTrapped() const { return trapped_; }
    const std::string& Reason() const { return reason_; }  // of the first core that trapped

private:
    enum class State : uint8_t { READY, WAITING, ENDED };

    void GiveAway(uint32_t core)
    {
        uint32_t next = NextReady(core);
        if (next == states_.size()) {
            std::vector<uint32_t> waiting;
            for (uint32_t i = 0; i < states_.size(); ++i) {
                if (states_[i] == State::WAITING) {
                    waiting.push_back(i);
                }
            }
            if (waiting.empty()) {
                return;
            }
            if (waiting.size() < states_.size() && !trapped_) {
                TheObserver().OnDeadlock(waiting);
            }
            TheObserver().PhaseEnd();
            for (const uint32_t i : waiting) {
                states_[i] = State::READY;
            }
            next = waiting.front();
        }
        turn_ = next;
        wake_[next].notify_one();
    }
    uint32_t NextReady(uint32_t core) const
    {
        for (uint32_t i = core + 1; i < states_.size(); ++i) {
            if (states_[i] == State::READY) {
                return i;
            }
        }
        return static_cast<uint32_t>(states_.size());
    }

    std::mutex mutex_;
    uint32_t turn_ = 0;
    bool trapped_ = false;
    std::string reason_;
    std::vector<State> states_;
    std::vector<std::condition_variable> wake_;
};

std::mutex g_launchMutex;
LaunchInfo g_launch;
std::vector<ObservedCore> g_cores;
Turns* g_turns = nullptr;
uint32_t g_threadNum = 0;
thread_local LaunchInfo t_next;  // the description of this thread's next launch

uint32_t DefaultCores()
{
    const char* text = std::getenv("MS_ASCEND_OPS_NUM_THREADS");
    char* end = nullptr;
    const long count = text == nullptr ? 0 : std::strtol(text, &end, 10);
    const bool isNumber = text != nullptr && *text >= '0' && *text <= '9' && *end == '\0';
    return isNumber && count >= 1 && count <= static_cast<long>(MAX_CORES) ? static_cast<uint32_t>(count) : CHIP_CORES;
}

void RunCore(uint32_t index, Cores cores, BlockFn block, void* kernel, GM_ADDR workspace)
{
    g_turns->Begin(index);
    Core& core = Core::Current();
    core.Begin(index, cores, false, {});
    g_cores[index].core = &core;
    TheObserver().CoreBegin(index);
    try {
        block(kernel, workspace);
        core.Fence();
        TheObserver().CoreEnd(index);
        g_turns->End(index);
    } catch (const Trapped& trap) {
        core.Fence();
        g_turns->Trap(index, trap.what());
    }
}

}  // namespace

ObservedCore& CoreState(uint32_t core)
{
    return g_cores[core];
}

const LaunchInfo& CurrentLaunch()
{
    return g_launch;
}

void DescribeLaunch(const char* op, std::vector<Argument> arguments)
{
    t_next.op = op;
    t_next.arguments = std::move(arguments);
}

void DescribeTiling(const void* tiling, uint64_t bytes)
{
    t_next.tiling = tiling;
    t_next.tilingBytes = bytes;
}

const Buffer& BufferOf(uint32_t core, uint32_t number)
{
    return g_cores[core].buffers[number - 1];
}

uint32_t BufferCount(uint32_t core)
{
    return static_cast<uint32_t>(g_cores[core].buffers.size());
}

const char* UnifiedBuffer(uint32_t core)
{
    return g_cores[core].core->UnifiedBuffer();
}

Settings& TheSettings()
{
    static Settings settings;
    return settings;
}

namespace {

class SerialExecutor final : public Executor {
public:
    uint32_t ThreadNum() const override { return g_threadNum == 0 ? DefaultCores() : g_threadNum; }

    void SetThreadNum(uint32_t count) override { g_threadNum = count > MAX_CORES ? MAX_CORES : count; }

    void SetUbBytes(uint32_t bytes) override { TheSettings().ubBytes = bytes; }

    ms_ascend_ops::Platform Platform() const override
    {
        ms_ascend_ops::Platform platform;  // its minBytesPerCore is the chip's
        const Settings& settings = TheSettings();
        platform.coreNum = settings.coreNum == 0 ? ThreadNum() : settings.coreNum;
        platform.ubBytes = settings.ubBytes == 0 ? UB_BYTES : settings.ubBytes;
        if (settings.minBytesPerCore != 0) {
            platform.minBytesPerCore = settings.minBytesPerCore;
        }
        return platform;
    }

    void Launch(const ms_ascend_ops::LaunchConfig& config, const ms_ascend_ops::LaunchMemory& memory, std::string_view,
                BlockFn block, void* kernel, KernelType type) override
    {
        constexpr uint64_t ALIGNMENT = 512;  // as the runtime of the chip aligns it
        std::lock_guard<std::mutex> lock(g_launchMutex);
        const bool isGiven = config.workspaceBytes == 0 || memory.workspace != nullptr;
        const uint64_t bytes = (config.workspaceBytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        const std::unique_ptr<void, decltype(&std::free)> own(isGiven ? nullptr : std::aligned_alloc(ALIGNMENT, bytes),
                                                              &std::free);
        void* const workspace = config.workspaceBytes == 0 ? nullptr : isGiven ? memory.workspace : own.get();
        g_launch = std::exchange(t_next, LaunchInfo{});
        const uint32_t group = type == KernelType::MIX_AIC_1_2 ? 2 : 1;
        const Cores cores{(config.blockDim + group - 1) / group * group, group};
        g_launch.blockDim = cores.count;
        g_launch.group = group;
        g_launch.workspace = static_cast<const char*>(workspace);
        g_launch.workspaceBytes = config.workspaceBytes;
        g_cores.assign(cores.count, ObservedCore{});
        Turns turns(cores.count);
        g_turns = &turns;
        TheObserver().LaunchBegin(g_launch);
        std::vector<std::thread> threads;
        for (uint32_t i = 0; i < cores.count; ++i) {
            threads.emplace_back(RunCore, i, cores, block, kernel, static_cast<GM_ADDR>(workspace));
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
        if (turns.HasTrapped()) {  // nothing is reported of work that the kernel left undone
            throw Trapped(turns.Reason());
        }
        TheObserver().LaunchEnd();
    }

    void WaitForAllBlocks() override { g_turns->WaitForAll(Core::Current().BlockIdx()); }
    bool Executes() const override { return TheSettings().executes; }
};

}  // namespace

Executor& TheExecutor()
{
    static SerialExecutor executor;
    return executor;
}

void Observer::OnDeadlock(const std::vector<uint32_t>& waiting)
{
    std::fprintf(stderr, "ms_ascend_ops: SyncAll: %zu of %u cores wait for the others, which have ended\n",
                 waiting.size(), g_launch.blockDim);
    std::abort();
}

}  // namespace host
}  // namespace AscendC
