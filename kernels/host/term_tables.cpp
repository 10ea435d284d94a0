#include "term_tables.h"

#include <cstdlib>
#include <mutex>
#include <string>
#include <unordered_map>

#include "chains.h"
#include "loops.h"
#include "steps.h"

namespace AscendC {
namespace host {

namespace {

constexpr uint32_t ENTRIES = 1u << 16;
// With 256 KiB each at most, 16 MiB.
constexpr size_t MAX_TABLES = 64;
constexpr size_t PAGE = 4096;

// What tells the results of a term, the last of the parts, from those of others.
std::string KeyOf(const std::vector<Term>& terms, const std::vector<int32_t>& parts)
{
    std::vector<int32_t> place(terms.size(), Term::NONE);
    std::string key;
    const auto append = [&key](const auto& value) { key.append(reinterpret_cast<const char*>(&value), sizeof(value)); };
    for (size_t i = 0; i < parts.size(); ++i) {
        const Term& term = terms[parts[i]];
        place[parts[i]] = static_cast<int32_t>(i);
        append(term.link);
        append(term.scalar);
        append(term.first == Term::NONE ? Term::NONE : place[term.first]);
        append(term.second == Term::NONE ? Term::NONE : place[term.second]);
    }
    return key;
}

// Some elements, and what terms make of them.
class Sample {
public:
    static constexpr uint32_t SIZE = 2048;

    Sample(const std::vector<Term>& terms, const std::vector<int32_t>& parts)
        : terms_(terms), parts_(parts), elements_(SIZE), results_(terms.size())
    {
        for (const int32_t part : parts) {
            results_[part].assign(SIZE, 1.0f);  // which DataBlocks are
        }
    }
    // The results of the last part for the elements with these bits and those that follow.
    void Write(uint32_t bits, ElementType type, char* to)
    {
        for (uint32_t i = 0; i < SIZE; ++i) {
            elements_[i] = static_cast<uint16_t>(bits + i);
        }
        for (const int32_t part : parts_) {
            if (terms_[part].link != Link::END) {
                Run(terms_[part], {Link::STORE_FLOAT, 0.0f, At(part)});
            }
        }
        const ChainLink copy[] = {
            {Link::LOAD_FLOAT, 0.0f, At(parts_.back())}, {StoreLink(type), 0.0f, to}, {Link::END, 0.0f, nullptr}};
        g_vectorUnit->runChain(copy, 0, SIZE);
    }

private:
    char* At(int32_t part) { return reinterpret_cast<char*>(results_[part].data()); }
    void Run(const Term& term, const ChainLink& store)
    {
        std::vector<ChainLink> chain;
        if (Loads(term.link)) {
            chain.push_back({term.link, 0.0f, reinterpret_cast<char*>(elements_.data())});
        } else {
            chain.push_back({Link::LOAD_FLOAT, 0.0f, At(term.first)});
            chain.push_back({term.link, term.scalar, term.second == Term::NONE ? nullptr : At(term.second)});
        }
        chain.push_back(store);
        chain.push_back({Link::END, 0.0f, nullptr});
        g_vectorUnit->runChain(chain.data(), 0, SIZE);
    }

    const std::vector<Term>& terms_;
    const std::vector<int32_t>& parts_;
    std::vector<uint16_t> elements_;
    std::vector<std::vector<float>> results_;  // by term
};

class TableStore {
public:
    // Never destroyed: threads may still run when the process ends.
    static TableStore& Get()
    {
        static TableStore& store = *new TableStore;
        return store;
    }
    TermTable Find(const std::vector<Term>& terms, const std::vector<int32_t>& parts)
    {
        const std::string key = KeyOf(terms, parts);
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto known = tables_.find(key);
        if (known != tables_.end()) {
            return known->second;
        }
        if (tables_.size() == MAX_TABLES) {
            return {};
        }
        TermTable table;
        table.type = EntryTypeOf(terms[parts.back()]);
        const size_t size = SizeOf(AccessOf(StoreLink(table.type)));
        char* const entries = static_cast<char*>(std::aligned_alloc(PAGE, ENTRIES * size + PAGE));
        Sample sample(terms, parts);
        for (uint32_t bits = 0; bits < ENTRIES && entries != nullptr; bits += Sample::SIZE) {
            sample.Write(bits, table.type, entries + bits * size);
        }
        table.entries = entries;
        tables_.emplace(key, table);
        return table;
    }

private:
    std::mutex mutex_;
    std::unordered_map<std::string, TermTable> tables_;
};

}  // namespace

ElementType EntryTypeOf(const Term& term)
{
    return term.link == Link::ROUND_HALF       ? ElementType::HALF
           : term.link == Link::ROUND_BFLOAT16 ? ElementType::BFLOAT16
                                               : ElementType::FLOAT;
}

std::vector<int32_t> PartsOf(int32_t term, const std::vector<Term>& terms)
{
    std::vector<bool> wanted(terms.size(), false);
    wanted[term] = true;
    std::vector<int32_t> parts;
    for (int32_t i = term; i >= 0; --i) {  // a term is behind those that it is of
        for (const int32_t part : {terms[i].first, terms[i].second}) {
            if (wanted[i] && part != Term::NONE) {
                wanted[part] = true;
            }
        }
    }
    for (int32_t i = 0; i <= term; ++i) {
        if (wanted[i]) {
            parts.push_back(i);
        }
    }
    return parts;
}

TermTable TableOf(int32_t term, const std::vector<Term>& terms)
{
    return TableStore::Get().Find(terms, PartsOf(term, terms));
}

}  // namespace host
}  // namespace AscendC
