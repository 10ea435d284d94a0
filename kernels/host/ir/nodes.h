/*!
 * The nodes of fused sequences and loops: what the interpreter (simd/fused_sequence_unit.h) and compiled code do with a
 * value that stays in a register.
 */
#ifndef ASCENDC_HOST_IR_NODES_H
#define ASCENDC_HOST_IR_NODES_H

#include "ir/instruction.h"

namespace AscendC {
namespace host {

// A fused sequence: element-wise instructions on floats, each of which takes the result of the one before. It runs in
// one pass with that value in registers. Each instruction is a node or two.
enum class NodeKind : uint8_t {
    LOAD_FLOAT,
    LOAD_HALF,
    LOAD_BFLOAT16,
    STORE_FLOAT,
    STORE_HALF,
    STORE_BFLOAT16,  // of a value that was rounded
    CAST_BFLOAT16,   // rounds and stores; the value is not needed any more
    ROUND_HALF,
    ROUND_BFLOAT16,
    ADDS,
    MULS,
    MAXS,
    MINS,
    EXP,
    LN,
    SQRT,
    ABS,
    RELU,
    AXPY,  // adds scalar * elements
    SUM,   // operand 0, one repeat, collects the values
    LARGEST,
    SMALLEST,
    END,
    BINARY  // and those behind it: see BinaryNode
};

// The second operand: elements (of 16 bits: cast to float), a DataBlock, or the value itself.
enum class Other : uint32_t { STREAM, STREAM_HALF, STREAM_BFLOAT16, BLOCK, SELF, COUNT };

// The value is the first operand, or with `swapped` the second.
constexpr NodeKind BinaryNode(Opcode opcode, Other other, bool swapped)
{
    return static_cast<NodeKind>(
        static_cast<uint32_t>(NodeKind::BINARY) +
        (static_cast<uint32_t>(opcode) * static_cast<uint32_t>(Other::COUNT) + static_cast<uint32_t>(other)) * 2 +
        (swapped ? 1 : 0));
}

constexpr uint32_t OrdinalOf(NodeKind binary)
{
    return static_cast<uint32_t>(binary) - static_cast<uint32_t>(NodeKind::BINARY);
}
constexpr Opcode OpcodeOf(NodeKind binary)
{
    return static_cast<Opcode>(OrdinalOf(binary) / 2 / static_cast<uint32_t>(Other::COUNT));
}
constexpr Other OtherOf(NodeKind binary)
{
    return static_cast<Other>(OrdinalOf(binary) / 2 % static_cast<uint32_t>(Other::COUNT));
}
constexpr bool IsSwapped(NodeKind binary)
{
    return OrdinalOf(binary) % 2 == 1;
}

constexpr uint32_t MAX_NODES = 64;

// While a schedule is made.
struct SequenceNode {
    NodeKind kind;
    float scalar;
    const Operand* operand;  // in memory, if the node has one
};

// When it runs: the last one is END.
struct BoundNode {
    NodeKind kind;
    float scalar;
    char* base;  // of the operand
};

inline bool Loads(NodeKind node)
{
    return node == NodeKind::LOAD_FLOAT || node == NodeKind::LOAD_HALF || node == NodeKind::LOAD_BFLOAT16;
}

inline bool Stores(NodeKind node)
{
    return node == NodeKind::STORE_FLOAT || node == NodeKind::STORE_HALF || node == NodeKind::STORE_BFLOAT16 ||
           node == NodeKind::CAST_BFLOAT16;
}

inline bool Collects(NodeKind node)
{
    return node == NodeKind::SUM || node == NodeKind::LARGEST || node == NodeKind::SMALLEST;
}

// The nodes of an instruction.
NodeKind LoadNode(ElementType type);
NodeKind StoreNode(ElementType type);  // of a value that was rounded, as RoundNode does, none for floats
NodeKind RoundNode(ElementType type);
NodeKind CollectNode(Opcode opcode);
NodeKind NodeOf(Opcode opcode);  // unary, or with a scalar

// How a node accesses its operand: elements of some type, a DataBlock, or a repeat of floats that collects.
enum class NodeAccess : uint8_t { NONE, FLOAT, HALF, BFLOAT16, BLOCK, LANES };
NodeAccess AccessOf(NodeKind node);
uint32_t SizeOf(NodeAccess access);     // of an element, in bytes
ElementType TypeOf(NodeAccess access);  // of elements

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_IR_NODES_H
