/*!
 * Tables in place of arithmetic, in loops (loops.h).
 *
 * What a loop calculates from one element of 16 bits and constants, as an activation and its derivative, has 65536
 * results. Where calculating takes longer than fetching a float from a table of them, a CPU that gathers fast looks
 * them up. The results are the same to the bit: the table holds what the chains of the loop make of every element.
 */
#ifndef ASCENDC_HOST_LOOP_TABLES_H
#define ASCENDC_HOST_LOOP_TABLES_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "instruction.h"
#include "loops.h"

namespace AscendC {
namespace host {

// One step of what a loop calculates: a link, on the results of others.
struct Term {
    static constexpr int32_t NONE = -1;
    static constexpr int32_t MANY = -2;

    Link link = Link::END;  // LOAD_* of an operand; BINARY without saying what the second operand is; END: a DataBlock
    float scalar = 0.0f;
    int32_t first = NONE;  // the terms that it is of
    int32_t second = NONE;
    int32_t operand = NONE;  // of a LOAD, or a DataBlock
    // The term of the only element that all of this depends on, of 16 bits; NONE: on constants alone; MANY: on other
    // elements, too. DataBlocks count as constants: of ones, as they are in activations.
    int32_t source = NONE;
};

// The results of a term, by the bits of the element.
struct LoopTable {
    const void* entries = nullptr;
    ElementType type = ElementType::FLOAT;  // where it is of 16 bits, there is room behind the last one to read 32
};

// What a loop over elements looks up, if that is worth it.
class LoopTables {
public:
    enum class Fate : uint8_t { CALCULATE, LOOK_UP, LEAVE_OUT };

    // With `looksUp` false all is calculated.
    LoopTables(const LoopForm& form, bool looksUp);

    bool Any() const { return !chosen_.empty(); }
    // What becomes of a link; its result is looked up, or nobody wants it.
    Fate Of(const LoopLink& link) const { return links_.empty() ? Fate::CALCULATE : links_[link.index].fate; }
    // The operand whose elements are the numbers of the table's entries, and the term that it holds.
    uint8_t OperandOf(const LoopLink& link) const;
    int32_t TermOf(const LoopLink& link) const { return links_[link.index].term; }
    bool IsIndex(uint8_t operand) const;
    // How many links are calculated.
    size_t Calculated() const;
    // Makes the tables. False: there are too many already.
    bool Fetch();
    const LoopTable& TableOf(const LoopLink& link) const { return tables_.at(TermOf(link)); }
    // The DataBlocks that must be ones: numbers of links (LoopLink::index).
    const std::vector<uint16_t>& Ones() const { return ones_; }

private:
    struct LinkTerm {
        int32_t term = Term::NONE;  // its result
        Fate fate = Fate::CALCULATE;
    };

    int32_t Add(const Term& term);
    int32_t Read(const LoopLink& link);
    int32_t Apply(const LoopLink& link, int32_t value);
    void Follow();
    void Want(int32_t term, std::vector<bool>& wanted) const;
    std::vector<int32_t> Candidates() const;
    std::vector<bool> Wanted() const;
    void Decide();
    std::string KeyOf(int32_t term, std::vector<int32_t>& order) const;

    const LoopForm* form_;
    std::vector<Term> terms_;
    std::vector<LinkTerm> links_;
    std::vector<int32_t> known_;   // by operand: the term that is there
    std::vector<int32_t> kept_;    // terms that are stored or collected
    std::vector<int32_t> chosen_;  // terms that are looked up
    std::vector<uint16_t> ones_;
    std::map<int32_t, LoopTable> tables_;  // by term
};

// Does a launch that moves so much look up what it can? Where tables fit in no cache, or few elements use them, not.
bool LooksUp(uint64_t bytes);

// From how many bytes on, on whatever CPU; 0: as the CPU is. For tests.
void SetLookUpBytes(uint64_t bytes);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_LOOP_TABLES_H
