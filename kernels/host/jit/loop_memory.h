/*!
 * Writes loads and stores of a loop as LLVM IR.
 */
#ifndef ASCENDC_HOST_JIT_LOOP_MEMORY_H
#define ASCENDC_HOST_JIT_LOOP_MEMORY_H

#include <string>

#include "ir/loop_form.h"
#include "jit/ir_arithmetic.h"

namespace AscendC {
namespace host {

constexpr uint32_t LANES_OF_128_BITS = 4;

// Floats have it, too: two elements of 16 bits may be the bits of one (And, Or), or two numbers of entries.
constexpr const char* LOOP_ALIGNMENT = ", align 2";

// Says how the values of a loop lie in registers.
struct LoopStyle {
    uint32_t lanes;           // floats in a vector
    bool convertsBFloat16;    // see VectorUnit
    bool roundsByConverting;  // likewise
    bool shifts;              // values have columns of others: all of a row must be in registers at once
    bool paired;              // two vectors hold the even and the odd ones of twice as many elements
    bool aligned;             // iterations begin where whole lines of an output do
    bool tail;                // one vector, of which %mask says which lanes there are
};

// Returns the name of something of an operand in the function.
inline std::string NameOf(const char* what, uint32_t operand)
{
    return std::string("%") + what + std::to_string(operand);
}

// Reads and writes the vectors of elements, or of a row, from number `first_` on.
class LoopMemory {
protected:
    LoopMemory(const LoopForm& form, const LoopStyle& style, const char* index, IrArithmetic& ir)
        : form_(form), style_(style), lanes_(style.lanes), index_(index), ir_(ir)
    {}

    // Returns how many lanes vector k has.
    uint32_t LanesOf(const Value& value, uint32_t k) const;
    std::string Address(uint8_t operand, uint32_t k, const char* type);
    // The lanes behind the last one that there is are zeros.
    std::string Read(const Value& load, uint32_t k, const char* type);
    void Write(const Value& store, uint32_t k, const char* type, const std::string& value);
    void Write(const Value& store, uint32_t k, const char* type, const std::string& value, uint32_t elements);

    const LoopForm& form_;
    const LoopStyle style_;
    const uint32_t lanes_;
    const std::string index_;  // of the first element
    IrArithmetic& ir_;
    uint32_t first_ = 0;

private:
    void WritePieces(const char* type, const std::string& value, const std::string& address, uint32_t elements,
                     uint32_t piece);
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_JIT_LOOP_MEMORY_H
