/*!
 * Writes the operations of arithmetic.h and simd.h as LLVM IR, in the same order.
 */
#ifndef ASCENDC_HOST_JIT_IR_ARITHMETIC_H
#define ASCENDC_HOST_JIT_IR_ARITHMETIC_H

#include <string>

#include "ir/instruction.h"
#include "jit/ir_builder.h"
#include "passes/lookup_tables.h"

namespace AscendC {
namespace host {

class IrArithmetic : public IrBuilder {
public:
    using IrBuilder::IrBuilder;

    // These are the opcodes with two operands, with a scalar, and with one operand. EXP has a function of its own.
    std::string Binary(Opcode opcode, const std::string& a, const std::string& b);
    std::string Scalar(Opcode opcode, const std::string& a, float scalar);
    std::string Axpy(const std::string& a, float scalar, const std::string& sum);
    std::string Unary(Opcode opcode, const std::string& a);
    Vectors Exp(const Vectors& x);
    std::string HaveNan(const Vectors& x);  // an i1

    // Rounds to bfloat16, with the bits in the upper halves; below them is anything, or with `clear` zeros.
    Vectors RoundToBFloat16(const Vectors& x, bool clear);
    // Rounds to bfloat16 with zeros below, an even number of vectors, where the CPU has an instruction for it.
    Vectors RoundByConverting(const Vectors& x);
    std::string Cleared(const std::string& bits, bool clear);
    // Rounds to bfloat16, and packs two vectors of floats in one: one after the other, or interleaved. With `converts`
    // the CPU has an instruction for it.
    Vectors PackAsBFloat16(const Vectors& x, bool interleaved, bool converts);
    Vectors PackRounded(const Vectors& rounded, bool interleaved);  // of RoundToBFloat16
    // Does it the other way round.
    std::string FromPacked(const std::string& pair, uint32_t second, bool interleaved);
    // Loads the entries of a table (lookup_tables.h) for these numbers.
    std::string FromTable(const LookupTable& table, const std::string& index);
    // Widens 16 bits, or those of one of two interleaved vectors, to integers of 32.
    std::string Widened(const std::string& bits);
    std::string WidenedOfPacked(const std::string& pair, uint32_t second);
    // Converts between 16 bits, as integers, and floats.
    std::string FromHalf(const std::string& bits);
    std::string ToHalf(const std::string& x);
    std::string FromBFloat16(const std::string& bits);
    std::string UpperHalves(const std::string& x);

private:
    struct ExpParts {
        std::string p;        // exp of the remainder
        std::string shifted;  // has the integer in its low bits
    };

    std::string Larger(const std::string& a, const std::string& b);
    std::string Smaller(const std::string& a, const std::string& b);
    ExpParts SplitExp(const std::string& x);
    std::string ExpByTable(const std::string& x);
    std::string ExpOfAny(const std::string& x);
    std::string ExpOfSmall(const std::string& x);
    std::string PowerOfTwo(const std::string& n);
    std::string Ln(const std::string& x);
    std::string AreSubnormal(const Vectors& x);
    std::string RoundNumber(const std::string& x, bool clear);
    std::string RoundAny(const std::string& x, bool clear);
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_JIT_IR_ARITHMETIC_H
