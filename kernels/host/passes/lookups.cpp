#include "passes/lookups.h"

#include <algorithm>
#include <atomic>

namespace AscendC {
namespace host {

namespace {

// A table is not in the L1 data cache when a launch begins.
constexpr uint64_t LEAST_BYTES_TO_LOOK_UP = 256 * 1024;

std::atomic<uint64_t> g_lookupBytes{0};
std::atomic<LookupMethod> g_lookupMethod{LookupMethod::NONE};

}  // namespace

Lookups::Lookups(const LoopForm& form, bool usesLookups)
    : values_(form.values),
      method_(LookupMethodInUse()),
      stored_(Value::NO_OPERAND, false),
      sources_(form.values.size(), MANY),
      fates_(form.values.size(), Fate::CALCULATE)
{
    if (!usesLookups || form.byRow) {
        return;
    }
    FindSources();
    Choose();
    if (!Any()) {
        return;
    }
    FindOnes();
    const std::vector<bool> wanted = Wanted();
    for (size_t i = 0; i < values_.size(); ++i) {
        fates_[i] = IsChosen(i) ? Fate::LOOKUP : (wanted[i] ? Fate::CALCULATE : Fate::DEAD);
    }
}

void Lookups::FindSources()
{
    for (size_t i = 0; i < values_.size(); ++i) {
        const Value& value = values_[i];
        if (value.kind == ValueKind::STORE) {
            stored_[value.operand] = true;
        }
        if (value.kind == ValueKind::LOAD) {
            sources_[i] = value.type == ElementType::FLOAT ? MANY : static_cast<int32_t>(i);
        } else if (value.kind == ValueKind::BLOCK) {
            sources_[i] = CONSTANT;
        } else {
            const int32_t other = value.second == Value::NO_VALUE ? CONSTANT : sources_[value.second];
            sources_[i] = sources_[value.first];
            if (sources_[i] == CONSTANT) {
                sources_[i] = other;
            } else if (other != CONSTANT && other != sources_[i]) {
                sources_[i] = MANY;
            }
        }
    }
}

// ---- the choice of values

bool Lookups::IsChosen(size_t value) const
{
    return std::find(chosen_.begin(), chosen_.end(), static_cast<int16_t>(value)) != chosen_.end();
}

// Says of each value whether it is made, or looked up.
std::vector<bool> Lookups::Wanted() const
{
    std::vector<bool> wanted(values_.size(), false);
    for (size_t i = values_.size(); i-- > 0;) {  // a value is behind those that it is of
        wanted[i] = wanted[i] || values_[i].HasEffect();
        for (const int16_t part : {values_[i].first, values_[i].second}) {
            if (wanted[i] && part != Value::NO_VALUE && !IsChosen(i)) {
                wanted[part] = true;
            }
        }
        if (wanted[i] && IsChosen(i)) {
            wanted[IndexOf(i)] = true;
        }
    }
    return wanted;
}

// Returns values of one element that are stored or summed up, or wanted for values of several.
std::vector<int16_t> Lookups::Candidates() const
{
    const std::vector<bool> wanted = Wanted();
    std::vector<int16_t> candidates;
    const auto add = [&](int16_t value) {
        if (value != Value::NO_VALUE && sources_[value] >= 0 && values_[value].kind != ValueKind::LOAD &&
            HasIndex(value) && std::find(candidates.begin(), candidates.end(), value) == candidates.end()) {
            candidates.push_back(value);
        }
    };
    for (const Value& value : values_) {
        if (value.HasEffect()) {
            add(value.first);
        }
    }
    for (size_t i = 0; i < values_.size(); ++i) {
        if (wanted[i] && sources_[i] == MANY) {
            add(values_[i].first);
            add(values_[i].second);
        }
    }
    return candidates;
}

// A lookup element by element reads the elements from memory: the loop may not have overwritten them.
bool Lookups::HasIndex(size_t value) const
{
    return method_ != LookupMethod::BY_ELEMENT || !stored_[values_[IndexOf(value)].operand];
}

const ArithmeticCost& Lookups::CostOfLookup(size_t value) const
{
    if (method_ != LookupMethod::BY_ELEMENT) {
        return GATHERING;
    }
    const bool ofHalf = values_[IndexOf(value)].type == ElementType::HALF;
    return ofHalf && EntryTypeOf(values_[value]) == ElementType::FLOAT ? LOADING_FAR : LOADING;
}

uint32_t Lookups::Time() const
{
    const std::vector<bool> wanted = Wanted();
    ArithmeticCost sum;
    for (size_t i = 0; i < wanted.size(); ++i) {
        const ArithmeticCost cost = !wanted[i] || values_[i].kind == ValueKind::STORE ? ArithmeticCost{}
                                    : IsChosen(i)                                     ? CostOfLookup(i)
                                                                                      : CostOf(values_[i]);
        sum.instructions += cost.instructions;
        sum.divisions += cost.divisions;
        sum.gathers += cost.gathers;
    }
    return sum.Time(method_ == LookupMethod::BY_ELEMENT ? SLOW_TIMINGS : FAST_TIMINGS);
}

// Chooses the candidates with which the loop takes least time, if that is a fifth less than without.
void Lookups::Choose()
{
    constexpr size_t MOST = 4;  // candidates of which every choice is tried
    std::vector<int16_t> candidates = Candidates();
    candidates.resize(std::min(candidates.size(), MOST));
    std::vector<int16_t> best;
    uint32_t least = Time() * 4 / 5;
    for (uint32_t choice = 1; choice < 1u << candidates.size(); ++choice) {
        chosen_.clear();
        for (size_t i = 0; i < candidates.size(); ++i) {
            if ((choice >> i & 1) != 0) {
                chosen_.push_back(candidates[i]);
            }
        }
        const uint32_t time = Time();
        if (time < least) {
            least = time;
            best = chosen_;
        }
    }
    chosen_ = best;
}

void Lookups::FindOnes()
{
    for (const int16_t value : chosen_) {
        for (const int16_t part : PartsOf(value, values_)) {
            const Value& block = values_[part];
            if (block.kind == ValueKind::BLOCK && std::find(ones_.begin(), ones_.end(), block.operand) == ones_.end()) {
                ones_.push_back(block.operand);
            }
        }
    }
}

// ---- for the writer of the loop

size_t Lookups::Calculated() const
{
    return static_cast<size_t>(std::count(fates_.begin(), fates_.end(), Fate::CALCULATE));
}

bool Lookups::IsIndex(int16_t load) const
{
    return std::any_of(chosen_.begin(), chosen_.end(), [&](int16_t value) { return IndexOf(value) == load; });
}

bool Lookups::Fetch()
{
    for (const int16_t value : chosen_) {
        tables_[value] = host::TableOf(value, values_);
    }
    return std::none_of(tables_.begin(), tables_.end(),
                        [](const auto& table) { return table.second.entries == nullptr; });
}

// ---- when

bool UsesLookups(uint64_t bytes)
{
    const uint64_t least = g_lookupBytes.load(std::memory_order_relaxed);
    return least == 0 ? g_vectorUnit->lookupMethod != LookupMethod::NONE && bytes >= LEAST_BYTES_TO_LOOK_UP
                      : bytes >= least;
}

LookupMethod LookupMethodInUse()
{
    const LookupMethod method = g_lookupMethod.load(std::memory_order_relaxed);
    return method == LookupMethod::NONE ? g_vectorUnit->lookupMethod : method;
}

void SetLookups(uint64_t bytes, LookupMethod method)
{
    g_lookupBytes.store(bytes, std::memory_order_relaxed);
    g_lookupMethod.store(bytes == 0 ? LookupMethod::NONE : method, std::memory_order_relaxed);
}

}  // namespace host
}  // namespace AscendC
