/*!
 * Finds groups of instructions that can walk over their operands in step.
 *
 * The result of a group is that of running its instructions one after the other: an instruction joins only if no strip
 * of it touches bytes that an earlier member has still to read or write.
 */
#ifndef ASCENDC_HOST_PASSES_GROUPS_H
#define ASCENDC_HOST_PASSES_GROUPS_H

#include <cstdint>
#include <vector>

#include "ir/memory.h"

namespace AscendC {
namespace host {

constexpr uint32_t STRIP_ELEMENTS = 512;

struct Group {
    std::vector<uint32_t> members;  // indices of instructions, in order
    uint32_t iterations = 0;        // of its coarsest instruction, or less; every other has a multiple of it
    uint32_t elements = 0;          // of its widest instruction in one such iteration
    bool granular = false;          // a member wants strips at multiples of GRANULE iterations
};

class Groups {
public:
    void Clear();
    // Adds an instruction, with its `end`s filled in, to the last group or a new one.
    void Add(const Instruction& instruction);
    // Adds a copy to global memory, where its data is made if possible, else as Add does.
    void AddCopyOut(const Instruction& copy);
    // The bytes are dead from here on: copies that were made from them may have been their only use.
    void Discard(const Span& dead);
    // Instructions whose only reader is a copy to global memory write there themselves.
    void WriteThrough();

    const std::vector<Instruction>& Instructions() const { return instructions_; }
    const std::vector<Group>& List() const { return groups_; }

private:
    bool Joins(const Group& group, const Instruction& later) const;
    bool Widens(const Instruction& later);
    bool SinkCopy(const Instruction& copy);
    void Append(const Instruction& instruction);
    void AddTo(Group& group, uint32_t index);
    bool OnlyUse(uint32_t copy, const Group& group) const;

    std::vector<Instruction> instructions_;
    std::vector<Group> groups_;
    std::vector<uint32_t> copiesOut_;  // not yet known to be the last use of their source
    std::vector<uint32_t> lastUses_;   // copies that are
    uint32_t frozen_ = 0;              // so many instructions came before the last Discard
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_PASSES_GROUPS_H
