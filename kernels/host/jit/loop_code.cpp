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

namespace {

// A process that needs more changes its shapes all the time. With the memory that LLVM keeps, each that is compiled
// takes some 200 KiB, all of them some 400 MiB; a form that was not requested yet, some 3 KiB.
constexpr size_t MAX_CODES = 2048;
constexpr size_t MAX_FORMS = 4 * MAX_CODES;
// A compilation takes as long as 200,000 strips of an instruction and more.
constexpr uint64_t THRESHOLD = 100000;

std::atomic<uint64_t> g_threshold{THRESHOLD};

// Are the DataBlocks of these operands ones?
bool AreOnes(const std::vector<uint8_t>& operands, const char* const* bases)
{
    static const float ones[ONE_BLK_SIZE / sizeof(float)] = {1, 1, 1, 1, 1, 1, 1, 1};
    return std::all_of(operands.begin(), operands.end(),
                       [bases](uint8_t operand) { return memcmp(bases[operand], ones, sizeof(ones)) == 0; });
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
    for (const Value& value : form_.values) {
        if (form_.variant.nonTemporal && form_.MayStoreNonTemporally(value)) {
            nonTemporal_.push_back(value.operand);
        }
    }
    ones_ = Lookups(form_, form_.variant.usesLookups).Ones();
}

void LoopCode::Request(LoopVariant variant, const char* const* bases)
{
    LoopRequests& requests = LoopRequests::Get();
    if (requests.stopped.load()) {
        return;
    }
    requests.Request(*this);
    const auto nonTemporally = [this](const Value& value) { return form_.MayStoreNonTemporally(value); };
    LoopForm form = form_;
    form.variant.prefetches = variant.prefetches;
    form.variant.nonTemporal =
        variant.nonTemporal && std::any_of(form_.values.begin(), form_.values.end(), nonTemporally);
    if (variant.usesLookups) {
        const Lookups tables(form_, true);
        form.variant.usesLookups = tables.Any() && AreOnes(tables.Ones(), bases);
    }
    const uint32_t number = form.variant.Number();
    if (LoopCode* const code = number == 0 ? nullptr : FindLoopCode(form)) {
        others_[number].store(code, std::memory_order_release);
        requests.Request(*code);
    }
}

bool LoopCode::Suits(const char* const* bases) const
{
    return AreOnes(ones_, bases) && std::all_of(nonTemporal_.begin(), nonTemporal_.end(), [bases](uint8_t operand) {
               return reinterpret_cast<uintptr_t>(bases[operand]) % NON_TEMPORAL_BYTES == 0;
           });
}

LoopFunction LoopCode::Function(LoopVariant variant, const char* const* bases) const
{
    // Tries all of them, then fewer; those that do not prefetch are the last.
    const uint32_t all = variant.Flags();
    for (uint32_t number = variant.Number(); number > 0;) {
        const LoopCode* const code = others_[number].load(std::memory_order_acquire);
        const LoopFunction function = code == nullptr ? nullptr : code->Function();
        if (function != nullptr && code->Suits(bases)) {
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
