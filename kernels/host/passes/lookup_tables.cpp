#include "passes/lookup_tables.h"

#include <cstdlib>
#include <mutex>
#include <string>
#include <unordered_map>

#include "passes/fused_loops.h"
#include "passes/fused_sequences.h"
#include "passes/steps.h"
#include "simd/vector_unit.h"

namespace AscendC {
namespace host {

namespace {

constexpr uint32_t ENTRIES = 1u << 16;
// With 256 KiB each at most, 16 MiB.
constexpr size_t MAX_TABLES = 64;
constexpr size_t PAGE = 4096;

// The key of a term's table: its parts, the term itself the last.
std::string KeyOf(const std::vector<Term>& terms, const std::vector<int32_t>& parts)
{
    std::vector<int32_t> place(terms.size(), Term::NONE);
    std::string key;
    const auto append = [&key](const auto& value) { key.append(reinterpret_cast<const char*>(&value), sizeof(value)); };
    for (size_t i = 0; i < parts.size(); ++i) {
        const Term& term = terms[parts[i]];
        place[parts[i]] = static_cast<int32_t>(i);
        append(term.kind);
        append(term.scalar);
        append(term.first == Term::NONE ? Term::NONE : place[term.first]);
        append(term.second == Term::NONE ? Term::NONE : place[term.second]);
    }
    return key;
}

// Some elements, and the terms of each.
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
            if (terms_[part].kind != NodeKind::END) {
                Run(terms_[part], {NodeKind::STORE_FLOAT, 0.0f, At(part)});
            }
        }
        const BoundNode copy[] = {{NodeKind::LOAD_FLOAT, 0.0f, At(parts_.back())},
                                  {StoreNode(type), 0.0f, to},
                                  {NodeKind::END, 0.0f, nullptr}};
        g_vectorUnit->runSequence(copy, 0, SIZE);
    }

private:
    char* At(int32_t part) { return reinterpret_cast<char*>(results_[part].data()); }
    void Run(const Term& term, const BoundNode& store)
    {
        std::vector<BoundNode> sequence;
        if (Loads(term.kind)) {
            sequence.push_back({term.kind, 0.0f, reinterpret_cast<char*>(elements_.data())});
        } else {
            sequence.push_back({NodeKind::LOAD_FLOAT, 0.0f, At(term.first)});
            sequence.push_back({term.kind, term.scalar, term.second == Term::NONE ? nullptr : At(term.second)});
        }
        sequence.push_back(store);
        sequence.push_back({NodeKind::END, 0.0f, nullptr});
        g_vectorUnit->runSequence(sequence.data(), 0, SIZE);
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
    LookupTable Find(const std::vector<Term>& terms, const std::vector<int32_t>& parts)
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
        LookupTable table;
        table.type = EntryTypeOf(terms[parts.back()]);
        const size_t size = SizeOf(AccessOf(StoreNode(table.type)));
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
    std::unordered_map<std::string, LookupTable> tables_;
};

}  // namespace

ElementType EntryTypeOf(const Term& term)
{
    return term.kind == NodeKind::ROUND_HALF       ? ElementType::HALF
           : term.kind == NodeKind::ROUND_BFLOAT16 ? ElementType::BFLOAT16
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

LookupTable TableOf(int32_t term, const std::vector<Term>& terms)
{
    return TableStore::Get().Find(terms, PartsOf(term, terms));
}

}  // namespace host
}  // namespace AscendC
