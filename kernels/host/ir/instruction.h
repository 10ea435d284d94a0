/*!
 * This is the recorded form of an instruction or a copy.
 *
 * An instruction is a loop of `iterations`. An iteration takes an element when all operands are contiguous, otherwise a
 * repeat or a row of `lanes` elements. Each operand advances by a fixed number of bytes an iteration, so any range of
 * iterations can be run by itself: that lets a core run a whole list of instructions strip by strip.
 */
#ifndef ASCENDC_HOST_IR_INSTRUCTION_H
#define ASCENDC_HOST_IR_INSTRUCTION_H

#include <cstdint>

namespace AscendC {
namespace host {

enum class Opcode : uint8_t {
    ADD,
    SUB,
    MUL,
    DIV,
    MAX,
    MIN,
    AND,
    OR,  // binary; these two on the bits of floats
    ADDS,
    MULS,
    MAXS,
    MINS,  // with a scalar
    EXP,
    LN,
    SQRT,
    ABS,
    RELU,  // unary
    AXPY,  // operand 0 = operand 2 += scalar * operand 1; the last of arithmetic
    CAST,  // option = RoundMode; of INT4, an iteration is a byte of two
    // Fills elements of a size, whatever their type (see BitsOf).
    FILL,
    BROADCAST_BLOCK,  // Brcb; iteration = source element
    GATHER_PATTERN,   // GatherMask with patterns 1 and 2; iteration = destination element
    GATHER,           // iteration = destination element
    TRANSPOSE,        // iteration = 16 blocks; option = blocks between those of dst, of src
    COPY,             // iteration = byte range of `lanes` bytes
    COPY_ADD,         // the same, adding floats atomically
    REDUCE_SUM,       // of floats; iteration = repeat
    REDUCE_MAX,
    NONE,
    COUNT
};

enum class ElementType : uint8_t { FLOAT, HALF, BFLOAT16, INT32, INT8, INT4, COUNT };

// Returns the type that stands for all of so many bytes, where only their bits count.
constexpr ElementType BitsOf(uint32_t bytes)
{
    return bytes == 1 ? ElementType::INT8 : (bytes == 2 ? ElementType::HALF : ElementType::FLOAT);
}

// Says how the operands of an iteration lie in memory.
enum class Layout : uint8_t {
    CONTIGUOUS,  // iteration = element
    REPEAT,      // iteration = repeat of `lanes` contiguous elements
    FOLD,        // iteration = row; operand 1, repeat by repeat, is collected in the one repeat of operands 0 and 2
    BROADCAST0,  // iteration = element, operand 1 is one DataBlock repeated
    BROADCAST1,  // iteration = element, operand 2 is one DataBlock repeated
    REPEAT_BROADCAST0,  // iteration = repeat, operand 1 is one DataBlock for the whole repeat
    REPEAT_BROADCAST1,  // iteration = repeat, operand 2 is one DataBlock for the whole repeat
    ACCUMULATE,         // iteration = element; operand 0 = operand 2 is one repeat that collects all the others
    ACCUMULATE_REPEAT,  // iteration = repeat; the same with a strided operand 1
    COUNT
};

constexpr uint32_t BINARY_OPCODES = 8;  // the first of Opcode
constexpr uint32_t OPCODES = static_cast<uint32_t>(Opcode::COUNT);
constexpr uint32_t TYPES = static_cast<uint32_t>(ElementType::COUNT);
constexpr uint32_t LAYOUTS = static_cast<uint32_t>(Layout::COUNT);

// An operation is what an instruction calculates; the interpreter and the compiler read the same.
struct Operation {
    Opcode opcode = Opcode::NONE;
    ElementType from = ElementType::FLOAT;  // of sources
    ElementType to = ElementType::FLOAT;    // of the destination
    Layout layout = Layout::CONTIGUOUS;

    constexpr Operation With(Layout other) const { return {opcode, from, to, other}; }
    constexpr bool operator==(const Operation& other) const { return Bits() == other.Bits(); }
    constexpr bool operator!=(const Operation& other) const { return Bits() != other.Bits(); }

private:
    constexpr uint32_t Bits() const
    {
        return static_cast<uint32_t>(opcode) | static_cast<uint32_t>(from) << 8 | static_cast<uint32_t>(to) << 16 |
               static_cast<uint32_t>(layout) << 24;
    }
};

// Makes an operation on elements of one type.
constexpr Operation OperationOn(ElementType type, Opcode opcode, Layout layout = Layout::CONTIGUOUS)
{
    return {opcode, type, type, layout};
}
constexpr Operation CastOf(ElementType from, ElementType to)
{
    return {Opcode::CAST, from, to, Layout::CONTIGUOUS};
}

constexpr int32_t NO_ORIGIN = -1;

struct Operand {
    char* base = nullptr;        // first byte of iteration 0
    int64_t stride = 0;          // bytes from an iteration to the next; 0: all touch the same bytes
    uint32_t extent = 0;         // bytes one iteration touches
    int32_t origin = NO_ORIGIN;  // the copy whose global memory this is in; the scheduler fills in this and `end`
    char* end = nullptr;         // past the last byte of the last iteration
};

constexpr uint32_t CALLED_OPERANDS = 3;  // at most, of instructions that a kernel calls
constexpr uint32_t MAX_OPERANDS = 7;     // and of those that passes make of them

// This is an instruction of the vector unit, or one of the others, which only have operands, `iterations` rows of
// `extent` bytes.
enum class InstructionKind : uint8_t {
    VECTOR,
    COPY_IN,       // operand 0 in UB from operand 1 in global memory
    COPY_OUT,      // operand 0 in global memory from operand 1 in UB
    COPY_OUT_ADD,  // the same, adding floats
    DISCARD,       // the bytes of operand 0 are not needed any more
    OVERWRITE,     // the bytes of operand 0 are about to be written by a scalar
    FENCE          // global memory may change now: nothing may be read from there any more
};

struct Instruction {
    Operation operation;
    InstructionKind kind = InstructionKind::VECTOR;
    // They are of instructions by repeats. The next 64 columns of the same rows can be added to this instruction:
    // `widen` if all operands advance (but one that is a DataBlock per row, `blockOperand`), and if it `folds`, in the
    // layout FOLD, where source 0 advances while the other operands collect its sums.
    bool widen = false;
    uint8_t blockOperand = 0;
    bool folds = false;
    uint32_t iterations = 0;
    uint32_t lanes = 1;    // elements in one iteration
    uint32_t granule = 1;  // a strip may only begin at a multiple of this many iterations
    uint32_t operandCount = 0;
    Operand operands[MAX_OPERANDS];  // [0] is the destination
    float scalar = 0.0f;
    uint32_t option = 0;  // meaning depends on the operation: a round mode, a value, an offset
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_IR_INSTRUCTION_H
