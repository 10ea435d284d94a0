/*!
 * Chooses lookup tables in place of arithmetic, in loops over elements (fused_loops.h).
 *
 * A value that depends on one element of 16 bits and on constants, as an activation and its derivative, has 65536
 * results. Where calculating it takes longer than a lookup, the loop looks it up. The results are the same to the bit.
 * Without tables, GELU of 2048x4096 bfloat16 takes 2.1 times as long on a Zen 4.
 */
#ifndef ASCENDC_HOST_PASSES_LOOKUPS_H
#define ASCENDC_HOST_PASSES_LOOKUPS_H

#include <cstdint>
#include <map>
#include <vector>

#include "ir/loop_form.h"
#include "passes/cost_model.h"
#include "passes/lookup_tables.h"
#include "simd/vector_unit.h"

namespace AscendC {
namespace host {

// Chooses the values that a loop looks up, if that is worth it.
class Lookups {
public:
    enum class Fate : uint8_t { CALCULATE, LOOKUP, DEAD };

    // With `usesLookups` false all is calculated.
    Lookups(const LoopForm& form, bool usesLookups);

    bool Any() const { return !chosen_.empty(); }
    LookupMethod Method() const { return method_; }
    // Says whether a value is calculated, looked up, or dead.
    Fate Of(size_t value) const { return fates_[value]; }
    // Counts the values that are calculated.
    size_t Calculated() const;
    // Returns, for a value that is looked up, the LOAD of elements that are the numbers of the table's entries.
    int16_t IndexOf(size_t value) const { return static_cast<int16_t>(sources_[value]); }
    const LookupTable& TableOf(size_t value) const { return tables_.at(static_cast<int16_t>(value)); }
    // Is this LOAD one of elements that are numbers of entries?
    bool IsIndex(int16_t load) const;
    // Makes the tables. False: there are too many already.
    bool Fetch();
    // Returns the operands whose DataBlocks must be ones, as they are in activations.
    const std::vector<uint8_t>& Ones() const { return ones_; }

private:
    // A value's source is the LOAD of the only element, of 16 bits, that all of it depends on; or
    static constexpr int32_t CONSTANT = -1;  // constants alone, which DataBlocks count as
    static constexpr int32_t MANY = -2;      // other elements, too

    void FindSources();
    bool IsChosen(size_t value) const;
    bool HasIndex(size_t value) const;
    std::vector<bool> Wanted() const;
    std::vector<int16_t> Candidates() const;
    const ArithmeticCost& CostOfLookup(size_t value) const;
    uint32_t Time() const;
    void Choose();
    void FindOnes();

    const std::vector<Value> values_;
    const LookupMethod method_;
    std::vector<bool> stored_;      // operands that the loop writes to
    std::vector<int32_t> sources_;  // of each value
    std::vector<Fate> fates_;
    std::vector<int16_t> chosen_;  // values that are looked up
    std::vector<uint8_t> ones_;
    std::map<int16_t, LookupTable> tables_;  // by value
};

// Does a launch that moves so many bytes look up what it can? And how?
bool UsesLookups(uint64_t bytes);
LookupMethod LookupMethodInUse();

// Sets from how many bytes on tables are used, and how, on whatever CPU; 0 bytes: as the CPU is. Tests call it.
void SetLookups(uint64_t bytes, LookupMethod method);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_PASSES_LOOKUPS_H
