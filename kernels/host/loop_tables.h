/*!
 * Tables in place of arithmetic, in loops over elements (loops.h).
 *
 * What a loop calculates from one element of 16 bits and constants, as an activation and its derivative, has 65536
 * results. Where calculating takes longer than fetching from a table of them, they are looked up.
 * The results are the same to the bit.
 */
#ifndef ASCENDC_HOST_LOOP_TABLES_H
#define ASCENDC_HOST_LOOP_TABLES_H

#include <cstdint>
#include <map>
#include <vector>

#include "effort.h"
#include "loop_terms.h"
#include "loops.h"
#include "term_tables.h"

namespace AscendC {
namespace host {

// What a loop looks up, if that is worth it.
class LoopTables {
public:
    enum class Fate : uint8_t { CALCULATE, LOOK_UP, LEAVE_OUT };

    // With `looksUp` false all is calculated.
    LoopTables(const LoopForm& form, bool looksUp);

    bool Any() const { return !chosen_.empty(); }
    LookUps Way() const { return way_; }
    // What becomes of a link; its result is looked up, or nobody wants it.
    Fate Of(const LoopLink& link) const { return fates_[link.index]; }
    // How many links are calculated.
    size_t Calculated() const;
    // Of a link that is looked up: its result, and the operand whose elements are the numbers of the table's entries.
    int32_t TermOf(const LoopLink& link) const { return terms_.ResultOf(link); }
    uint8_t OperandOf(const LoopLink& link) const { return IndexOf(TermOf(link)); }
    const TermTable& TableOf(const LoopLink& link) const { return tables_.at(TermOf(link)); }
    bool IsIndex(uint8_t operand) const;
    // Makes the tables. False: there are too many already.
    bool Fetch();
    // The DataBlocks that must be ones, as they are in activations: numbers of links (LoopLink::index).
    const std::vector<uint16_t>& Ones() const { return ones_; }

private:
    uint8_t IndexOf(int32_t term) const;
    bool IsChosen(int32_t term) const;
    bool HasIndex(int32_t term) const;
    std::vector<bool> Wanted() const;
    std::vector<int32_t> Candidates() const;
    const Effort& EffortOfLooking(int32_t term) const;
    uint32_t Time() const;
    void Choose();
    void FindOnes(const LoopForm& form);

    const LoopTerms terms_;
    const LookUps way_;
    std::vector<bool> stored_;     // operands that the loop writes to
    std::vector<Fate> fates_;      // by link
    std::vector<int32_t> chosen_;  // terms that are looked up
    std::vector<uint16_t> ones_;
    std::map<int32_t, TermTable> tables_;  // by term
};

// Does a launch that moves so many bytes look up what it can? And how?
bool LooksUp(uint64_t bytes);
LookUps WayToLookUp();

// From how many bytes on, and how, on whatever CPU; 0 bytes: as the CPU is. For tests.
void SetLookUps(uint64_t bytes, LookUps way);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_LOOP_TABLES_H
