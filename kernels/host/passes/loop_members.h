/*!
 * Describes an instruction to a fused loop (fused_loops.h): its operation on elements, and the memory that it accesses.
 */
#ifndef ASCENDC_HOST_PASSES_LOOP_MEMBERS_H
#define ASCENDC_HOST_PASSES_LOOP_MEMBERS_H

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/types.h"
#include "ir/memory.h"
#include "ir/value_graph.h"
#include "passes/groups.h"

namespace AscendC {
namespace host {

// Says how an instruction accesses an operand: elements of some type, a DataBlock, a repeat of floats that collects, or
// in some way that no loop knows.
enum class Access : uint8_t { OTHER, FLOAT, HALF, BFLOAT16, BLOCK, LANES };
Access AccessTo(ElementType type);
ElementType TypeOf(Access access);

// This is an operand of a loop. An iteration is one of the group.
struct MemoryAccess {
    const Operand* operand;
    int64_t stride;     // bytes from an iteration to the next
    uint32_t elements;  // of an iteration that is a row; 0: it is an element
    Access kind;
    bool reads;
    bool writes;

    bool SameMemory(const MemoryAccess& other) const { return IsAlike(other) && operand->base == other.operand->base; }
    bool Conflicts(const MemoryAccess& other) const
    {
        return (writes || other.writes) && Overlap(*operand, *other.operand);
    }
    bool IsApart(const MemoryAccess& other) const { return !Conflicts(other) || IsBeside(other); }
    // The code goes through all values for some elements, then for the next: of two that collect in the same lanes, the
    // second one would begin before the first one is done.
    bool MayFollow(const MemoryAccess& other) const
    {
        const bool collect = kind == Access::LANES && other.kind == Access::LANES;
        return IsApart(other) || (SameMemory(other) && !collect);
    }
    // Returns the bytes of a row.
    int64_t Bytes() const
    {
        return kind == Access::LANES   ? ONE_REPEAT_BYTE_SIZE
               : kind == Access::BLOCK ? ONE_BLK_SIZE
                                       : elements * SizeOf(TypeOf(kind));
    }
    // Do they touch columns of the same rows, which never meet?
    bool IsBeside(const MemoryAccess& other) const
    {
        if (elements == 0 || stride != other.stride || kind == Access::OTHER || other.kind == Access::OTHER) {
            return false;
        }
        return ColumnsAreApart(BytesTo(other), Bytes(), other.Bytes(), stride);
    }
    // Do they touch columns of the same rows, whole vectors apart?
    bool SharesRows(const MemoryAccess& other) const
    {
        const int64_t bytes = BytesTo(other);
        return HasWhole() && other.HasWhole() && HasElements() && IsAlike(other) &&
               bytes % (COLUMNS * SizeOf(TypeOf(kind))) == 0 &&
               std::max(Bytes(), bytes + other.Bytes()) - std::min<int64_t>(0, bytes) <= stride;
    }
    bool HasElements() const { return kind == Access::FLOAT || kind == Access::HALF || kind == Access::BFLOAT16; }
    bool IsInput() const { return reads && !writes && HasElements(); }
    bool HasWhole() const { return elements > 0 && elements % COLUMNS == 0; }
    int32_t ColumnsTo(const MemoryAccess& other) const
    {
        return static_cast<int32_t>(BytesTo(other) / SizeOf(TypeOf(kind)));
    }

private:
    bool IsAlike(const MemoryAccess& other) const
    {
        return stride == other.stride && operand->origin == other.operand->origin && kind == other.kind;
    }
    int64_t BytesTo(const MemoryAccess& other) const { return other.operand->base - operand->base; }
};

using MemoryAccesses = std::vector<MemoryAccess>;

// This is an instruction of a group, as a loop sees it.
struct LoopMember {
    uint32_t instruction;
    uint32_t iterations;   // of the group
    uint32_t rowElements;  // 0: an iteration is an element
    bool compiles;
    Operation operation;  // by element
    float scalar;
    MemoryAccesses accesses;  // to its operands, in their order
};

// `copied`: the type of elements that a copy is one of.
LoopMember MemberOf(uint32_t index, const Group& group, const std::vector<Instruction>& instructions, Access copied);

// Does one of them write what the other accesses?
bool Conflict(const MemoryAccesses& a, const MemoryAccesses& b);
// Do some of one work on other columns of rows that some of the other work on?
bool Shift(const MemoryAccesses& a, const MemoryAccesses& b);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_PASSES_LOOP_MEMBERS_H
