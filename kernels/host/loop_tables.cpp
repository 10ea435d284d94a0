#include "loop_tables.h"

#include <algorithm>
#include <atomic>

#include "steps.h"

namespace AscendC {
namespace host {

namespace {

// A table is not in the first cache when a launch begins.
constexpr uint64_t LEAST_BYTES = 256 * 1024;

std::atomic<uint64_t> g_lookUpBytes{0};
std::atomic<LookUps> g_wayToLookUp{LookUps::NONE};

}  // namespace

LoopTables::LoopTables(const LoopForm& form, bool looksUp)
    : terms_(looksUp && !form.byRow ? form : LoopForm{}),
      way_(WayToLookUp()),
      stored_(LoopLink::NO_OPERAND, false),
      fates_(form.links.size(), Fate::CALCULATE)
{
    for (const LoopLink& link : form.links) {
        if (Stores(link.link) && link.needed != LoopLink::NOT_NEEDED) {
            stored_[link.operand] = true;
        }
    }
    Choose();
    if (!Any()) {
        return;
    }
    FindOnes(form);
    const std::vector<bool> wanted = Wanted();
    for (const LoopLink& link : form.links) {
        const int32_t term = terms_.ResultOf(link);
        if (IsChosen(term)) {
            fates_[link.index] = Fate::LOOK_UP;
        } else if (term != Term::NONE && !wanted[term]) {
            fates_[link.index] = Fate::LEAVE_OUT;
        }
    }
}

// ---- what is looked up

bool LoopTables::IsChosen(int32_t term) const
{
    return std::find(chosen_.begin(), chosen_.end(), term) != chosen_.end();
}

// Of each term: is it made, or looked up?
std::vector<bool> LoopTables::Wanted() const
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
std::vector<int32_t> LoopTables::Candidates() const
{
    const std::vector<Term>& terms = terms_.List();
    const std::vector<bool> wanted = Wanted();
    std::vector<int32_t> candidates;
    const auto add = [&](int32_t term) {
        if (term != Term::NONE && terms[term].source >= 0 && !Loads(terms[term].link) && HasIndex(term) &&
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

// Who looks up one element after the other reads them again when it does: they must still be there.
bool LoopTables::HasIndex(int32_t term) const
{
    return way_ != LookUps::BY_ELEMENT || !stored_[IndexOf(term)];
}

const Effort& LoopTables::EffortOfLooking(int32_t term) const
{
    const std::vector<Term>& terms = terms_.List();
    if (way_ != LookUps::BY_ELEMENT) {
        return GATHERING;
    }
    const bool ofHalf = terms[terms[term].source].link == Link::LOAD_HALF;
    return ofHalf && EntryTypeOf(terms[term]) == ElementType::FLOAT ? LOADING_FAR : LOADING;
}

uint32_t LoopTables::Time() const
{
    const std::vector<bool> wanted = Wanted();
    Effort sum;
    for (size_t i = 0; i < wanted.size(); ++i) {
        const int32_t term = static_cast<int32_t>(i);
        const Effort effort = !wanted[i]       ? Effort{}
                              : IsChosen(term) ? EffortOfLooking(term)
                                               : EffortOf(terms_.List()[i].link);
        sum.instructions += effort.instructions;
        sum.divisions += effort.divisions;
        sum.gathers += effort.gathers;
    }
    return sum.Time(way_ == LookUps::BY_ELEMENT ? SLOW_PACE : FAST_PACE);
}

// The candidates with which the loop takes least time, if that is a fifth less than without.
void LoopTables::Choose()
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

void LoopTables::FindOnes(const LoopForm& form)
{
    std::vector<bool> used(LoopLink::NO_OPERAND, false);
    for (const int32_t term : chosen_) {
        for (const int32_t part : PartsOf(term, terms_.List())) {
            if (terms_.List()[part].link == Link::END) {
                used[terms_.List()[part].operand] = true;
            }
        }
    }
    for (const LoopLink& link : form.links) {
        if (link.operand != LoopLink::NO_OPERAND && used[link.operand]) {
            used[link.operand] = false;
            ones_.push_back(link.index);
        }
    }
}

// ---- for who writes the loop

size_t LoopTables::Calculated() const
{
    return static_cast<size_t>(std::count(fates_.begin(), fates_.end(), Fate::CALCULATE));
}

uint8_t LoopTables::IndexOf(int32_t term) const
{
    const std::vector<Term>& terms = terms_.List();
    return static_cast<uint8_t>(terms[terms[term].source].operand);
}

bool LoopTables::IsIndex(uint8_t operand) const
{
    return std::any_of(chosen_.begin(), chosen_.end(), [&](int32_t term) { return IndexOf(term) == operand; });
}

bool LoopTables::Fetch()
{
    for (const int32_t term : chosen_) {
        tables_[term] = host::TableOf(term, terms_.List());
    }
    return std::none_of(tables_.begin(), tables_.end(),
                        [](const auto& table) { return table.second.entries == nullptr; });
}

// ---- when

bool LooksUp(uint64_t bytes)
{
    const uint64_t least = g_lookUpBytes.load(std::memory_order_relaxed);
    return least == 0 ? g_vectorUnit->lookUps != LookUps::NONE && bytes >= LEAST_BYTES : bytes >= least;
}

LookUps WayToLookUp()
{
    const LookUps way = g_wayToLookUp.load(std::memory_order_relaxed);
    return way == LookUps::NONE ? g_vectorUnit->lookUps : way;
}

void SetLookUps(uint64_t bytes, LookUps way)
{
    g_lookUpBytes.store(bytes, std::memory_order_relaxed);
    g_wayToLookUp.store(bytes == 0 ? LookUps::NONE : way, std::memory_order_relaxed);
}

}  // namespace host
}  // namespace AscendC
