#include "jit/loop_code.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "jit/loop_ir.h"
#include "passes/lookups.h"

namespace AscendC {
namespace host {

static_assert(sizeof(LoopNode) == 12, "forms are compared as bytes: no padding");

namespace {

// A process that needs more changes its shapes all the time. With the memory that LLVM keeps, each that is compiled
// takes some 200 KiB, all of them some 400 MiB; a form that was not requested yet, some 3 KiB.
constexpr size_t MAX_CODES = 2048;
constexpr size_t MAX_FORMS = 4 * MAX_CODES;
// A compilation takes as long as 200,000 strips of an instruction and more.
constexpr uint64_t THRESHOLD = 100000;

std::atomic<uint64_t> g_threshold{THRESHOLD};

// Are the DataBlocks of these nodes ones?
bool AreOnes(const std::vector<uint16_t>& indices, const BoundNode* nodes)
{
    static const float ones[ONE_BLK_SIZE / sizeof(float)] = {1, 1, 1, 1, 1, 1, 1, 1};
    return std::all_of(indices.begin(), indices.end(),
                       [nodes](uint16_t index) { return memcmp(nodes[index].base, ones, sizeof(ones)) == 0; });
}

}  // namespace

struct LoopRequests {
    std::mutex mutex;
    std::condition_variable arrived;
    std::unordered_map<std::string, LoopCode*> byForm;  // by its key
    std::vector<std::unique_ptr<LoopCode>> codes;       // by number
    std::deque<LoopCode*> waiting;
    size_t requested = 0;
    std::atomic<uint32_t> pending{0};
    std::atomic<bool> stopped{false};

    // Never destroyed: threads may still run when the process ends.
    static LoopRequests& Get()
    {
        static LoopRequests& requests = *new LoopRequests;
        return requests;
    }

    LoopCode* Find(const LoopForm& form)
    {
        const std::lock_guard<std::mutex> lock(mutex);
        std::string key = form.Key();
        const auto known = byForm.find(key);
        if (known != byForm.end()) {
            return known->second;
        }
        if (codes.size() == MAX_FORMS) {
            return nullptr;
        }
        codes.push_back(std::make_unique<LoopCode>(form, static_cast<uint32_t>(codes.size())));
        LoopCode* const code = codes.back().get();
        byForm.emplace(std::move(key), code);
        return code;
    }
    void Request(LoopCode& code)
    {
        {
            const std::lock_guard<std::mutex> lock(mutex);
            if (code.requested_ || requested == MAX_CODES) {
                return;
            }
            code.requested_ = true;
            ++requested;
            waiting.push_back(&code);
            ++pending;
        }
        arrived.notify_one();
    }
    bool Next(bool wait, LoopVisitor visit, void* context)
    {
        const LoopCode* code = nullptr;
        {
            std::unique_lock<std::mutex> lock(mutex);
            if (wait) {
                arrived.wait(lock, [this] { return stopped.load() || !waiting.empty(); });
            }
            if (stopped.load() || waiting.empty()) {
                return false;
            }
            code = waiting.front();
            waiting.pop_front();
        }
        const std::string name = "loop" + std::to_string(code->number_);
        visit(context, code->number_, name.c_str(), WriteLoop(code->form_, *g_vectorUnit, name).c_str());
        return true;
    }
    void Set(uint32_t number, LoopFunction function)
    {
        const std::lock_guard<std::mutex> lock(mutex);
        codes.at(number)->function_.store(function, std::memory_order_release);
        --pending;
    }
    void Stop()
    {
        stopped.store(true);  // without the lock: it may be held for ever in the child of a fork
        arrived.notify_all();
    }
};

LoopCode::LoopCode(const LoopForm& form, uint32_t number) : form_(form), number_(number)
{
    for (const LoopNode& node : form_.nodes) {
        if (form_.variant.nonTemporal && form_.MayStoreNonTemporally(node)) {
            nonTemporal_.push_back(node.index);
        }
    }
    ones_ = Lookups(form_, form_.variant.usesLookups).Ones();
}

void LoopCode::Request(LoopVariant variant, const BoundNode* nodes)
{
    LoopRequests& requests = LoopRequests::Get();
    if (requests.stopped.load()) {
        return;
    }
    requests.Request(*this);
    if (!form_.straightLine.empty()) {
        return;  // there is one variant only
    }
    const auto nonTemporally = [this](const LoopNode& node) { return form_.MayStoreNonTemporally(node); };
    LoopForm form = form_;
    form.variant.prefetches = variant.prefetches;
    form.variant.nonTemporal =
        variant.nonTemporal && std::any_of(form_.nodes.begin(), form_.nodes.end(), nonTemporally);
    if (variant.usesLookups) {
        const Lookups tables(form_, true);
        form.variant.usesLookups = tables.Any() && AreOnes(tables.Ones(), nodes);
    }
    const uint32_t number = form.variant.Number();
    if (LoopCode* const code = number == 0 ? nullptr : FindLoopCode(form)) {
        others_[number].store(code, std::memory_order_release);
        requests.Request(*code);
    }
}

bool LoopCode::Suits(const BoundNode* nodes) const
{
    return AreOnes(ones_, nodes) && std::all_of(nonTemporal_.begin(), nonTemporal_.end(), [nodes](uint16_t index) {
               return reinterpret_cast<uintptr_t>(nodes[index].base) % NON_TEMPORAL_BYTES == 0;
           });
}

LoopFunction LoopCode::Function(LoopVariant variant, const BoundNode* nodes) const
{
    // All of them, then fewer; those that do not prefetch are the last.
    const uint32_t all = variant.Flags();
    for (uint32_t number = variant.Number(); number > 0;) {
        const LoopCode* const code = others_[number].load(std::memory_order_acquire);
        const LoopFunction function = code == nullptr ? nullptr : code->Function();
        if (function != nullptr && code->Suits(nodes)) {
            return function;
        }
        const uint32_t flags = number % LoopVariant::FLAGS;
        number = flags > 0 ? number - flags + ((flags - 1) & all) : all;
    }
    return Function();
}

LoopCode* FindLoopCode(const LoopForm& form)
{
    LoopRequests& requests = LoopRequests::Get();
    return WritesLoops(*g_vectorUnit) && !requests.stopped.load() ? requests.Find(form) : nullptr;
}

uint64_t LoopThreshold()
{
    return g_threshold.load(std::memory_order_relaxed);
}

void SetLoopThreshold(uint64_t strips)
{
    g_threshold.store(strips);
}

bool NextLoop(bool wait, LoopVisitor visit, void* context)
{
    return LoopRequests::Get().Next(wait, visit, context);
}

void SetLoop(uint32_t number, LoopFunction function)
{
    LoopRequests::Get().Set(number, function);
}

uint32_t PendingLoops()
{
    const LoopRequests& requests = LoopRequests::Get();
    return requests.stopped.load() ? 0 : requests.pending.load();
}

void StopLoops()
{
    LoopRequests::Get().Stop();
}

}  // namespace host
}  // namespace AscendC
