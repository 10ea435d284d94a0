/*!
 * Lookup tables in place of arithmetic, in loops over elements (fused_loops.h).
 *
 * A value that depends on one element of 16 bits and on constants, as an activation and its derivative, has 65536
 * results. Where calculating it takes longer than a lookup, the loop looks it up. The results are the same to the bit.
 */
#ifndef ASCENDC_HOST_PASSES_LOOKUPS_H
#define ASCENDC_HOST_PASSES_LOOKUPS_H

#include <cstdint>
#include <map>
#include <vector>

#include "ir/loop_terms.h"
#include "passes/cost_model.h"
#include "passes/fused_loops.h"
#include "passes/lookup_tables.h"
#include "simd/vector_unit.h"

namespace AscendC {
namespace host {

// The values that a loop looks up, if that is worth it.
class Lookups {
public:
    enum class Fate : uint8_t { CALCULATE, LOOKUP, DEAD };

    // With `usesLookups` false all is calculated.
    Lookups(const LoopForm& form, bool usesLookups);

    bool Any() const { return !chosen_.empty(); }
    LookupMethod Method() const { return method_; }
    // Whether a node is calculated, looked up, or dead.
    Fate Of(const LoopNode& node) const { return fates_[node.index]; }
    // How many nodes are calculated.
    size_t Calculated() const;
    // Of a node that is looked up: its result, and the operand whose elements are the numbers of the table's entries.
    int32_t TermOf(const LoopNode& node) const { return terms_.ResultOf(node); }
    uint8_t OperandOf(const LoopNode& node) const { return IndexOf(TermOf(node)); }
    const LookupTable& TableOf(const LoopNode& node) const { return tables_.at(TermOf(node)); }
    bool IsIndex(uint8_t operand) const;
    // Makes the tables. False: there are too many already.
    bool Fetch();
    // The DataBlocks that must be ones, as they are in activations: numbers of nodes (LoopNode::index).
    const std::vector<uint16_t>& Ones() const { return ones_; }

private:
    uint8_t IndexOf(int32_t term) const;
    bool IsChosen(int32_t term) const;
    bool HasIndex(int32_t term) const;
    std::vector<bool> Wanted() const;
    std::vector<int32_t> Candidates() const;
    const ArithmeticCost& CostOfLookup(int32_t term) const;
    uint32_t Time() const;
    void Choose();
    void FindOnes(const LoopForm& form);

    const LoopTerms terms_;
    const LookupMethod method_;
    std::vector<bool> stored_;     // operands that the loop writes to
    std::vector<Fate> fates_;      // by node
    std::vector<int32_t> chosen_;  // terms that are looked up
    std::vector<uint16_t> ones_;
    std::map<int32_t, LookupTable> tables_;  // by term
};

// Does a launch that moves so many bytes look up what it can? And how?
bool UsesLookups(uint64_t bytes);
LookupMethod LookupMethodInUse();

// From how many bytes on, and how, on whatever CPU; 0 bytes: as the CPU is. For tests.
void SetLookups(uint64_t bytes, LookupMethod method);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_PASSES_LOOKUPS_H
