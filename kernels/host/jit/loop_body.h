/*!
 * Writes the body of a loop (fused_loops.h), for some vectors of elements, or of a row, as LLVM IR: every value of its
 * graph in turn, for all of these vectors, so that they hide each other's latency.
 *
 * It calculates the same as the instructions of the loop, bit for bit (but for the payload of NaN): the operations are
 * those of arithmetic.h and simd.h, and nothing lets LLVM change their order or fuse them.
 */
#ifndef ASCENDC_HOST_JIT_LOOP_BODY_H
#define ASCENDC_HOST_JIT_LOOP_BODY_H

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/loop_form.h"
#include "jit/loop_memory.h"
#include "passes/lookups.h"

namespace AscendC {
namespace host {

class LoopBody : private LoopMemory {
public:
    LoopBody(const LoopForm& form, const LoopStyle& style, const Lookups& lookups, const char* index, IrArithmetic& ir)
        : LoopMemory(form, style, index, ir), lookups_(lookups)
    {}

    // Writes all values, for so many vectors from number `first` on, or with `shifts` for all that they have.
    void Emit(uint32_t first, uint32_t count);
    // Returns vector k of the 64 lanes that an operand collects.
    std::string& Sum(uint8_t operand, uint32_t k) { return sums_[operand][k]; }
    // Returns how many different vectors a DataBlock makes when it is repeated.
    uint32_t BlockParts() const { return style_.paired ? 2 : (lanes_ < 8 ? 8 / lanes_ : 1); }
    // Returns the even elements of two vectors, or the odd ones.
    std::string Apart(const std::string& a, const std::string& b, uint32_t odd) const;
    // Returns the first vector, or the second, of those that Apart has taken apart.
    std::string Together(const std::string& even, const std::string& odd, uint32_t second) const;

private:
    uint32_t VectorsOf(const Value& value) const;
    bool IsPairwise(const Value& value) const;
    Vectors Of(int16_t value, const Value& user) const;
    void Emit(int16_t number);

    Vectors Load(int16_t number);
    std::string LoadNarrow(int16_t number, uint32_t k);
    Vectors Block(const Value& block);
    Vectors Compute(const Value& value);
    Vectors Round(int16_t number);
    Vectors Columns(const Value& value) const;
    Vectors Lookup(int16_t number);
    std::string Entries(int16_t number, uint32_t k, uint32_t vectors);
    void Store(const Value& store);
    void Collect(const Value& value);
    void CollectInMemory(const Value& value);
    std::string FirstLanes(uint32_t count) const;
    bool IsStored(int16_t number) const;

    const Lookups& lookups_;
    uint32_t count_ = 0;                                           // of the vectors at hand
    std::vector<Vectors> values_;                                  // each as floats
    std::map<int16_t, Vectors> packed_;                            // values rounded to bfloat16, two vectors in one
    std::map<int16_t, Vectors> halves_;                            // values rounded to half, as such
    std::map<std::pair<int16_t, uint32_t>, std::string> indices_;  // by LOAD and vector: bits of elements
    std::array<std::array<std::string, REPEAT_FLOATS / LANES_OF_128_BITS>, Value::NO_OPERAND> sums_;
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_JIT_LOOP_BODY_H
