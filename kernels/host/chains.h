/*!
 * Finds the chains in a group: consecutive instructions each of which works on what the one before made.
 */
#ifndef ASCENDC_HOST_CHAINS_H
#define ASCENDC_HOST_CHAINS_H

#include <cstdint>
#include <vector>

#include "instruction.h"
#include "narrow.h"

namespace AscendC {
namespace host {

// The links that an instruction is made of.
Link LoadLink(ElementType type);
Link StoreLink(ElementType type);  // of a value that was rounded, as RoundLink does, none for floats
Link RoundLink(ElementType type);
Link CollectLink(Opcode opcode);
Link LinkOf(Opcode opcode);  // unary, or with a scalar

class Chain {
public:
    void Clear();
    // Takes in the next instruction; it must stay where it is as long as the chain's items are used. If so, sources
    // that are not the chain's value become the narrow ones. `overwritten`: what they were cast to has replaced the
    // chain's value since.
    bool Extend(Instruction& instruction, const NarrowSources& narrow, bool overwritten = false);
    uint32_t Length() const { return static_cast<uint32_t>(parts_.size()); }
    const std::vector<ChainItem>& Items() const { return items_; }
    // Of each item, the instruction that it is part of.
    const std::vector<uint32_t>& PartOf() const { return partOf_; }
    // A cast from 16 bits to float and nothing else.
    bool OnlyCasts() const;
    // Can a chain cast what the instruction reads of floats that were cast from 16 bits?
    static bool CastsItself(const Instruction& instruction);
    // It cannot run as the instruction it was.
    bool ReadsNarrow() const { return readsNarrow_; }

private:
    bool Meets(const Operand& operand) const;
    bool Aligned(const Instruction& later) const;
    bool Collect(const Instruction& instruction, Link link);
    bool Copy(const Instruction& instruction);
    void Push(const ChainItem& item);
    void Store(const Operand& to, ElementType type);

    std::vector<const Instruction*> parts_;
    std::vector<ChainItem> items_;
    std::vector<uint32_t> partOf_;
    const Operand* value_ = nullptr;  // what the chain's value was written to last
    ElementType type_ = ElementType::FLOAT;
    bool readsNarrow_ = false;
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_CHAINS_H
