/*!
 * Finds the fused sequences in a group: consecutive instructions, each of which takes the result of the one before.
 */
#ifndef ASCENDC_HOST_PASSES_FUSED_SEQUENCES_H
#define ASCENDC_HOST_PASSES_FUSED_SEQUENCES_H

#include <cstdint>
#include <vector>

#include "ir/instruction.h"
#include "ir/nodes.h"
#include "passes/narrowing.h"

namespace AscendC {
namespace host {

class FusedSequence {
public:
    void Clear();
    // Takes in the next instruction; it must stay where it is as long as the sequence's items are used. If so, sources
    // that are not the sequence's value become the narrow ones. `overwritten`: what they were cast to has replaced the
    // sequence's value since.
    bool Extend(Instruction& instruction, const NarrowSources& narrow, bool overwritten = false);
    uint32_t Length() const { return static_cast<uint32_t>(parts_.size()); }
    const std::vector<SequenceNode>& Items() const { return items_; }
    // Of each item, the instruction that it is part of.
    const std::vector<uint32_t>& PartOf() const { return partOf_; }
    // A cast from 16 bits to float and nothing else.
    bool OnlyCasts() const;
    // Can a fused sequence cast what the instruction reads of floats that were cast from 16 bits?
    static bool CastsItself(const Instruction& instruction);
    // It cannot run as the instruction it was.
    bool ReadsNarrow() const { return readsNarrow_; }

private:
    bool Meets(const Operand& operand) const;
    bool Aligned(const Instruction& later) const;
    bool Collect(const Instruction& instruction, NodeKind node);
    bool Copy(const Instruction& instruction);
    void Push(const SequenceNode& item);
    void Store(const Operand& to, ElementType type);

    std::vector<const Instruction*> parts_;
    std::vector<SequenceNode> items_;
    std::vector<uint32_t> partOf_;
    const Operand* value_ = nullptr;  // where the sequence's value was written last
    ElementType type_ = ElementType::FLOAT;
    bool readsNarrow_ = false;
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_PASSES_FUSED_SEQUENCES_H
