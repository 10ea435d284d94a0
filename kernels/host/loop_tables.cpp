#include "loop_tables.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <unordered_map>

#include "steps.h"

namespace AscendC {
namespace host {

namespace {

constexpr uint32_t ENTRIES = 1u << 16;
// With 256 KiB each at most, 16 MiB.
constexpr size_t MAX_TABLES = 64;
constexpr size_t PAGE = 4096;
// A table is not in the first cache when a launch begins.
constexpr uint64_t LEAST_BYTES = 256 * 1024;

std::atomic<uint64_t> g_lookUpBytes{0};

// ---- what calculating a vector of AVX-512 takes on the CPUs that gather fast

struct Effort {
    uint32_t instructions = 0;
    uint32_t divisions = 0;  // and square roots
    uint32_t gathers = 0;

    // In half cycles. Two instructions begin in a cycle; divisions and gathers go on beside them.
    uint32_t Time() const
    {
        constexpr uint32_t DIVISION = 32;
        constexpr uint32_t GATHER = 17;
        return std::max({instructions, divisions * DIVISION, gathers * GATHER});
    }
};

Effort EffortOf(Link link)
{
    switch (link) {
        case Link::LOAD_FLOAT:
        case Link::LOAD_HALF:
        case Link::LOAD_BFLOAT16:
        case Link::END:
            return {};
        case Link::ROUND_HALF:
        case Link::ROUND_BFLOAT16:
            return {3, 0, 0};
        case Link::EXP:
            return {10, 0, 0};
        case Link::LN:
            return {24, 0, 0};
        case Link::SQRT:
            return {1, 1, 0};
        default:
            const bool divides = link >= Link::BINARY && OpcodeOf(link) == Opcode::DIV;
            return {1, divides ? 1u : 0u, 0};
    }
}

size_t SizeOf(ElementType type)
{
    return type == ElementType::FLOAT ? sizeof(float) : sizeof(uint16_t);
}

bool IsOfHalf(Link link)
{
    return link == Link::ROUND_HALF || link == Link::LOAD_HALF;
}

bool IsLoad(Link link)
{
    return link == Link::LOAD_FLOAT || link == Link::LOAD_HALF || link == Link::LOAD_BFLOAT16;
}

// ---- the tables of the process

// All results of a term: `order` has the terms that it is made of, each behind those that it is of itself.
void Fill(const LoopTable& table, const std::vector<Term>& terms, const std::vector<int32_t>& order)
{
    constexpr uint32_t AT_ONCE = 2048;
    static const float ones[ONE_BLK_SIZE / sizeof(float)] = {1, 1, 1, 1, 1, 1, 1, 1};
    std::vector<uint16_t> elements(AT_ONCE);
    std::vector<std::vector<float>> results(terms.size());
    for (const int32_t term : order) {
        results[term].resize(AT_ONCE);
    }
    const auto addressOf = [&](int32_t term) { return reinterpret_cast<char*>(results[term].data()); };
    for (uint32_t begin = 0; begin < ENTRIES; begin += AT_ONCE) {
        for (uint32_t i = 0; i < AT_ONCE; ++i) {
            elements[i] = static_cast<uint16_t>(begin + i);
        }
        for (const int32_t number : order) {
            const Term& term = terms[number];
            std::vector<ChainLink> chain;
            if (IsLoad(term.link)) {
                chain.push_back({term.link, 0.0f, reinterpret_cast<char*>(elements.data())});
            } else if (term.link != Link::END) {
                const bool block = term.second != Term::NONE && terms[term.second].link == Link::END;
                char* const other = term.second == Term::NONE ? nullptr
                                    : block                   ? reinterpret_cast<char*>(const_cast<float*>(ones))
                                                              : addressOf(term.second);
                Link link = term.link;
                if (link >= Link::BINARY) {
                    link = BinaryLink(OpcodeOf(link), block ? Other::BLOCK : Other::STREAM, IsSwapped(link));
                }
                chain.push_back({Link::LOAD_FLOAT, 0.0f, addressOf(term.first)});
                chain.push_back({link, term.scalar, other});
            } else {
                continue;
            }
            chain.push_back({Link::STORE_FLOAT, 0.0f, addressOf(number)});
            chain.push_back({Link::END, 0.0f, nullptr});
            g_vectorUnit->runChain(chain.data(), 0, AT_ONCE);
        }
        char* const to = static_cast<char*>(const_cast<void*>(table.entries)) + begin * SizeOf(table.type);
        const ChainLink store[] = {{Link::LOAD_FLOAT, 0.0f, addressOf(order.back())},
                                   {StoreLink(table.type), 0.0f, to},
                                   {Link::END, 0.0f, nullptr}};
        g_vectorUnit->runChain(store, 0, AT_ONCE);
    }
}

class TableStore {
public:
    // Never destroyed: threads may still run when the process ends.
    static TableStore& Get()
    {
        static TableStore& store = *new TableStore;
        return store;
    }
    LoopTable Find(const std::string& key, const std::vector<Term>& terms, const std::vector<int32_t>& order)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto known = tables_.find(key);
        if (known != tables_.end()) {
            return known->second;
        }
        if (tables_.size() == MAX_TABLES) {
            return {};
        }
        const Link link = terms[order.back()].link;
        LoopTable table;
        table.type = link == Link::ROUND_HALF       ? ElementType::HALF
                     : link == Link::ROUND_BFLOAT16 ? ElementType::BFLOAT16
                                                    : ElementType::FLOAT;
        table.entries = std::aligned_alloc(PAGE, ENTRIES * SizeOf(table.type) + PAGE);
        if (table.entries == nullptr) {
            throw std::bad_alloc();
        }
        Fill(table, terms, order);
        tables_.emplace(key, table);
        return table;
    }

private:
    std::mutex mutex_;
    std::unordered_map<std::string, LoopTable> tables_;
};

}  // namespace

// ---- what a loop calculates

LoopTables::LoopTables(const LoopForm& form, bool looksUp) : form_(&form)
{
    if (!looksUp || form.byRow) {
        return;
    }
    Follow();
    Decide();
}

// A term of that is known already, or a new one.
int32_t LoopTables::Add(const Term& term)
{
    const auto same = [&term](const Term& other) {
        return other.link == term.link && memcmp(&other.scalar, &term.scalar, sizeof(float)) == 0 &&
               other.first == term.first && other.second == term.second && other.operand == term.operand;
    };
    const auto known = std::find_if(terms_.begin(), terms_.end(), same);
    if (known != terms_.end()) {
        return static_cast<int32_t>(known - terms_.begin());
    }
    terms_.push_back(term);
    return static_cast<int32_t>(terms_.size()) - 1;
}

// What an operand holds.
int32_t LoopTables::Read(const LoopLink& link)
{
    int32_t& known = known_[link.operand];
    if (known == Term::NONE) {
        const LinkAccess access = AccessOf(link.link);
        Term term;
        term.link = access == LinkAccess::HALF       ? Link::LOAD_HALF
                    : access == LinkAccess::BFLOAT16 ? Link::LOAD_BFLOAT16
                                                     : Link::LOAD_FLOAT;
        term.operand = link.operand;
        term.source = access == LinkAccess::FLOAT ? Term::MANY : static_cast<int32_t>(terms_.size());
        known = Add(term);
    }
    return known;
}

// What a link makes of a value.
int32_t LoopTables::Apply(const LoopLink& link, int32_t value)
{
    Term term;
    term.link = link.link;
    term.scalar = link.scalar;
    term.first = value;
    if (link.link == Link::AXPY) {
        term.second = Read(link);
    } else if (link.link >= Link::BINARY) {
        term.link = BinaryLink(OpcodeOf(link.link), Other::STREAM, IsSwapped(link.link));
        if (OtherOf(link.link) == Other::SELF) {
            term.second = value;
        } else if (OtherOf(link.link) == Other::BLOCK) {
            Term block;
            block.operand = link.operand;
            term.second = Add(block);
        } else {
            term.second = Read(link);
        }
    }
    term.source = terms_[value].source;
    const int32_t other = term.second == Term::NONE ? Term::NONE : terms_[term.second].source;
    if (term.source == Term::NONE) {
        term.source = other;
    } else if (other != Term::NONE && other != term.source) {
        term.source = Term::MANY;
    }
    return Add(term);
}

void LoopTables::Follow()
{
    links_.resize(form_->links.size());
    known_.assign(LoopLink::NO_OPERAND, Term::NONE);
    int32_t value = Term::NONE;
    for (const LoopLink& link : form_->links) {
        if (link.link == Link::END) {
            continue;
        }
        if (IsLoad(link.link)) {
            value = Read(link);
            continue;
        }
        if (Collects(link.link)) {
            kept_.push_back(value);
            continue;
        }
        if (!Stores(link.link)) {
            value = Apply(link, value);
            links_[link.index].term = value;
            continue;
        }
        int32_t stored = value;
        if (link.link == Link::CAST_BFLOAT16 || (link.link == Link::STORE_HALF && !IsOfHalf(terms_[value].link))) {
            LoopLink rounds = link;
            rounds.link = link.link == Link::STORE_HALF ? Link::ROUND_HALF : Link::ROUND_BFLOAT16;
            stored = Apply(rounds, value);
            links_[link.index].term = stored;
            value = link.link == Link::STORE_HALF ? value : stored;  // which goes on as it was
        }
        known_[link.operand] = stored;
        if (link.needed != LoopLink::NOT_NEEDED) {
            kept_.push_back(stored);
        }
    }
}

// ---- what is looked up

void LoopTables::Want(int32_t term, std::vector<bool>& wanted) const
{
    if (term == Term::NONE || wanted[term]) {
        return;
    }
    wanted[term] = true;
    if (std::find(chosen_.begin(), chosen_.end(), term) == chosen_.end()) {
        Want(terms_[term].first, wanted);
        Want(terms_[term].second, wanted);
    }
}

std::vector<bool> LoopTables::Wanted() const
{
    std::vector<bool> wanted(terms_.size(), false);
    for (const int32_t term : kept_) {
        Want(term, wanted);
    }
    return wanted;
}

// Terms of one element that are stored, or wanted for terms of several.
std::vector<int32_t> LoopTables::Candidates() const
{
    const std::vector<bool> wanted = Wanted();
    std::vector<int32_t> candidates;
    const auto add = [&](int32_t term) {
        if (term != Term::NONE && terms_[term].source >= 0 && !IsLoad(terms_[term].link) &&
            std::find(candidates.begin(), candidates.end(), term) == candidates.end()) {
            candidates.push_back(term);
        }
    };
    for (const int32_t term : kept_) {
        add(term);
    }
    for (size_t i = 0; i < terms_.size(); ++i) {
        if (wanted[i] && terms_[i].source == Term::MANY) {
            add(terms_[i].first);
            add(terms_[i].second);
        }
    }
    return candidates;
}

void LoopTables::Decide()
{
    constexpr size_t MOST = 4;  // candidates of which every choice is tried
    const auto time = [this] {
        const std::vector<bool> wanted = Wanted();
        Effort sum;
        for (size_t i = 0; i < terms_.size(); ++i) {
            const bool looked = std::find(chosen_.begin(), chosen_.end(), static_cast<int32_t>(i)) != chosen_.end();
            const Effort effort = !wanted[i] ? Effort{} : looked ? Effort{3, 0, 1} : EffortOf(terms_[i].link);
            sum.instructions += effort.instructions;
            sum.divisions += effort.divisions;
            sum.gathers += effort.gathers;
        }
        return sum.Time();
    };
    std::vector<int32_t> candidates = Candidates();
    candidates.resize(std::min(candidates.size(), MOST));
    std::vector<int32_t> best;
    uint32_t least = time() * 4 / 5;  // else it is not worth it
    for (uint32_t choice = 1; choice < 1u << candidates.size(); ++choice) {
        chosen_.clear();
        for (size_t i = 0; i < candidates.size(); ++i) {
            if ((choice >> i & 1) != 0) {
                chosen_.push_back(candidates[i]);
            }
        }
        const uint32_t needs = time();
        if (needs < least) {
            least = needs;
            best = chosen_;
        }
    }
    chosen_ = best;
    const std::vector<bool> wanted = Wanted();
    for (LinkTerm& link : links_) {
        if (link.term != Term::NONE && !Any()) {
            continue;
        }
        if (std::find(chosen_.begin(), chosen_.end(), link.term) != chosen_.end()) {
            link.fate = Fate::LOOK_UP;
        } else if (link.term != Term::NONE && !wanted[link.term]) {
            link.fate = Fate::LEAVE_OUT;
        }
    }
    std::vector<bool> used(LoopLink::NO_OPERAND, false);
    for (const int32_t term : chosen_) {
        std::vector<int32_t> order;
        KeyOf(term, order);
        for (const int32_t part : order) {
            if (terms_[part].link == Link::END) {
                used[terms_[part].operand] = true;
            }
        }
    }
    for (const LoopLink& link : form_->links) {
        if (link.operand != LoopLink::NO_OPERAND && used[link.operand]) {
            used[link.operand] = false;
            ones_.push_back(link.index);
        }
    }
}

uint8_t LoopTables::OperandOf(const LoopLink& link) const
{
    return static_cast<uint8_t>(terms_[terms_[links_[link.index].term].source].operand);
}

bool LoopTables::IsIndex(uint8_t operand) const
{
    return std::any_of(chosen_.begin(), chosen_.end(),
                       [this, operand](int32_t term) { return terms_[terms_[term].source].operand == operand; });
}

// What tells this term's results from those of others. `order`: see Fill.
std::string LoopTables::KeyOf(int32_t term, std::vector<int32_t>& order) const
{
    std::vector<bool> wanted(terms_.size(), false);
    const auto want = [&](const auto& self, int32_t number) -> void {
        if (number != Term::NONE && !wanted[number]) {
            wanted[number] = true;
            self(self, terms_[number].first);
            self(self, terms_[number].second);
        }
    };
    want(want, term);
    std::vector<int32_t> place(terms_.size(), Term::NONE);
    std::string key;
    for (size_t i = 0; i < terms_.size(); ++i) {  // a term's parts are older than itself
        if (!wanted[i]) {
            continue;
        }
        place[i] = static_cast<int32_t>(order.size());
        order.push_back(static_cast<int32_t>(i));
        const auto append = [&key](const auto& value) {
            key.append(reinterpret_cast<const char*>(&value), sizeof(value));
        };
        append(terms_[i].link);
        append(terms_[i].scalar);
        append(terms_[i].first == Term::NONE ? Term::NONE : place[terms_[i].first]);
        append(terms_[i].second == Term::NONE ? Term::NONE : place[terms_[i].second]);
    }
    return key;
}

bool LoopTables::Fetch()
{
    for (const int32_t term : chosen_) {
        std::vector<int32_t> order;
        const std::string key = KeyOf(term, order);
        tables_[term] = TableStore::Get().Find(key, terms_, order);
    }
    return std::none_of(tables_.begin(), tables_.end(),
                        [](const auto& table) { return table.second.entries == nullptr; });
}

size_t LoopTables::Calculated() const
{
    return static_cast<size_t>(std::count_if(form_->links.begin(), form_->links.end(),
                                             [this](const LoopLink& link) { return Of(link) == Fate::CALCULATE; }));
}

// ---- when

bool LooksUp(uint64_t bytes)
{
    const uint64_t least = g_lookUpBytes.load(std::memory_order_relaxed);
    return least == 0 ? g_vectorUnit->gathersFast && bytes >= LEAST_BYTES : bytes >= least;
}

void SetLookUpBytes(uint64_t bytes)
{
    g_lookUpBytes.store(bytes, std::memory_order_relaxed);
}

}  // namespace host
}  // namespace AscendC
