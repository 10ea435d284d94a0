#include "passes/lookups.h"

#include <algorithm>
#include <atomic>

#include "passes/steps.h"

namespace AscendC {
namespace host {

namespace {

// A table is not in the L1 data cache when a launch begins.
constexpr uint64_t LEAST_BYTES_TO_LOOK_UP = 256 * 1024;

std::atomic<uint64_t> g_lookupBytes{0};
std::atomic<LookupMethod> g_lookupMethod{LookupMethod::NONE};

}  // namespace

Lookups::Lookups(const LoopForm& form, bool usesLookups)
    : terms_(usesLookups && !form.byRow ? form : LoopForm{}),
      method_(LookupMethodInUse()),
      stored_(LoopNode::NO_OPERAND, false),
      fates_(form.nodes.size(), Fate::CALCULATE)
{
    for (const LoopNode& node : form.nodes) {
        if (Stores(node.kind) && node.needed != LoopNode::NOT_NEEDED) {
            stored_[node.operand] = true;
        }
    }
    Choose();
    if (!Any()) {
        return;
    }
    FindOnes(form);
    const std::vector<bool> wanted = Wanted();
    for (const LoopNode& node : form.nodes) {
        const int32_t term = terms_.ResultOf(node);
        if (IsChosen(term)) {
            fates_[node.index] = Fate::LOOKUP;
        } else if (term != Term::NONE && !wanted[term]) {
            fates_[node.index] = Fate::DEAD;
        }
    }
}

// ---- the choice of values

bool Lookups::IsChosen(int32_t term) const
{
    return std::find(chosen_.begin(), chosen_.end(), term) != chosen_.end();
}

// Of each term: is it made, or looked up?
std::vector<bool> Lookups::Wanted() const
{
    const std::vector<Term>& terms = terms_.List();
    std::vector<bool> wanted(terms.size(), false);
    for (const int32_t term : terms_.Kept()) {
        wanted[term] = true;
    }
    for (size_t i = terms.size(); i-- > 0;) {  // a term is behind those that it is of
        for (const int32_t part : {terms[i].first, terms[i].second}) {
            if (wanted[i] && part != Term::NONE && !IsChosen(static_cast<int32_t>(i))) {
                wanted[part] = true;
            }
        }
    }
    return wanted;
}

// Terms of one element that are stored, or wanted for terms of several.
std::vector<int32_t> Lookups::Candidates() const
{
    const std::vector<Term>& terms = terms_.List();
    const std::vector<bool> wanted = Wanted();
    std::vector<int32_t> candidates;
    const auto add = [&](int32_t term) {
        if (term != Term::NONE && terms[term].source >= 0 && !Loads(terms[term].kind) && HasIndex(term) &&
            std::find(candidates.begin(), candidates.end(), term) == candidates.end()) {
            candidates.push_back(term);
        }
    };
    for (const int32_t term : terms_.Kept()) {
        add(term);
    }
    for (size_t i = 0; i < terms.size(); ++i) {
        if (wanted[i] && terms[i].source == Term::MANY) {
            add(terms[i].first);
            add(terms[i].second);
        }
    }
    return candidates;
}

// A lookup element by element reads the elements from memory: the loop may not have overwritten them.
bool Lookups::HasIndex(int32_t term) const
{
    return method_ != LookupMethod::BY_ELEMENT || !stored_[IndexOf(term)];
}

const ArithmeticCost& Lookups::CostOfLookup(int32_t term) const
{
    const std::vector<Term>& terms = terms_.List();
    if (method_ != LookupMethod::BY_ELEMENT) {
        return GATHERING;
    }
    const bool ofHalf = terms[terms[term].source].kind == NodeKind::LOAD_HALF;
    return ofHalf && EntryTypeOf(terms[term]) == ElementType::FLOAT ? LOADING_FAR : LOADING;
}

uint32_t Lookups::Time() const
{
    const std::vector<bool> wanted = Wanted();
    ArithmeticCost sum;
    for (size_t i = 0; i < wanted.size(); ++i) {
        const int32_t term = static_cast<int32_t>(i);
        const ArithmeticCost cost = !wanted[i]       ? ArithmeticCost{}
                                    : IsChosen(term) ? CostOfLookup(term)
                                                     : CostOf(terms_.List()[i].kind);
        sum.instructions += cost.instructions;
        sum.divisions += cost.divisions;
        sum.gathers += cost.gathers;
    }
    return sum.Time(method_ == LookupMethod::BY_ELEMENT ? SLOW_TIMINGS : FAST_TIMINGS);
}

// The candidates with which the loop takes least time, if that is a fifth less than without.
void Lookups::Choose()
{
    constexpr size_t MOST = 4;  // candidates of which every choice is tried
    std::vector<int32_t> candidates = Candidates();
    candidates.resize(std::min(candidates.size(), MOST));
    std::vector<int32_t> best;
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

void Lookups::FindOnes(const LoopForm& form)
{
    std::vector<bool> used(LoopNode::NO_OPERAND, false);
    for (const int32_t term : chosen_) {
        for (const int32_t part : PartsOf(term, terms_.List())) {
            if (terms_.List()[part].kind == NodeKind::END) {
                used[terms_.List()[part].operand] = true;
            }
        }
    }
    for (const LoopNode& node : form.nodes) {
        if (node.operand != LoopNode::NO_OPERAND && used[node.operand]) {
            used[node.operand] = false;
            ones_.push_back(node.index);
        }
    }
}

// ---- for the writer of the loop

size_t Lookups::Calculated() const
{
    return static_cast<size_t>(std::count(fates_.begin(), fates_.end(), Fate::CALCULATE));
}

uint8_t Lookups::IndexOf(int32_t term) const
{
    const std::vector<Term>& terms = terms_.List();
    return static_cast<uint8_t>(terms[terms[term].source].operand);
}

bool Lookups::IsIndex(uint8_t operand) const
{
    return std::any_of(chosen_.begin(), chosen_.end(), [&](int32_t term) { return IndexOf(term) == operand; });
}

bool Lookups::Fetch()
{
    for (const int32_t term : chosen_) {
        tables_[term] = host::TableOf(term, terms_.List());
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
