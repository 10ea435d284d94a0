/*!
 * Loops: steps of a group that code made at run time can carry out in one pass, with every value in a register.
 *
 * A chain (chains.h) keeps one value in registers; what other chains make, it reads from memory. A loop takes all of
 * the chains that have to do with one another, and likewise instructions on the same short rows, of which no chains are
 * made. Here loops are found, and brought into a form that says nothing of addresses: what has the same form shares its
 * code (loop_code.h).
 */
#ifndef ASCENDC_HOST_LOOPS_H
#define ASCENDC_HOST_LOOPS_H

#include <cstdint>
#include <string>
#include <vector>

#include "groups.h"
#include "instruction.h"
#include "prefetch.h"
#include "ranges.h"
#include "sequence.h"
#include "steps.h"
#include "types.h"

namespace AscendC {
namespace host {

// A loop over elements takes so many at a time, and leaves what is left to the chains.
constexpr uint32_t LOOP_ELEMENTS = 128;

// A loop over rows: the code of a row has no inner loop.
constexpr uint32_t MAX_ROW_ELEMENTS = 256;

// Does a DataBlock that all rows of so many elements share begin anew with each of them?
constexpr bool BlocksFit(uint32_t elements)
{
    return elements % (ONE_BLK_SIZE / sizeof(float)) == 0;
}

// What the CPU writes past the caches at once, of any alignment that NumPy and MindSpore give their memory.
constexpr uint32_t STREAMED_BYTES = 16;

// How a link goes about its operand: elements of some type, a DataBlock, or a repeat of floats that collects.
enum class LinkAccess : uint8_t { NONE, FLOAT, HALF, BFLOAT16, BLOCK, LANES };
LinkAccess AccessOf(Link link);
uint32_t SizeOf(LinkAccess access);     // of an element, in bytes
ElementType TypeOf(LinkAccess access);  // of elements

// A link of a chain of the loop. No padding: forms are compared as bytes.
struct LoopLink {
    static constexpr uint8_t NO_OPERAND = 255;
    // Who needs what a store writes: nobody, somebody behind the loop, or whoever has the tensor.
    static constexpr uint16_t NOT_NEEDED = 0;
    static constexpr uint16_t IN_UB = 1;
    static constexpr uint16_t IN_GM = 2;

    Link link;
    uint8_t operand;    // links with the same number work on the same memory, others on other memory or other columns
    uint16_t index;     // in the ChainLinks of the loop, which has the operand's address
    uint16_t elements;  // of each row, in a loop over rows
    uint16_t needed;    // of a store
    float scalar;
};

// An operand of a loop over rows.
struct LoopRows {
    int64_t stride;  // bytes from a row to the next
    uint32_t whole;  // the operand whose rows it has columns of; it may be that itself
    int32_t column;  // of that, where it begins
};

// How code may go about a loop, where a launch is large enough.
struct LoopWays {
    static constexpr uint32_t FLAGS = 4;  // combinations of the first two
    static constexpr uint32_t COUNT = FLAGS * (LoopAhead::MAX_STRETCHES + 1);

    bool streams = false;  // what goes to global memory does not stay in the caches (streaming.h)
    bool looksUp = false;  // results are looked up in tables (loop_tables.h)
    uint32_t asks = 0;     // for lines of so many stretches of the next tile, on the way (prefetch.h)

    constexpr uint32_t Flags() const { return (streams ? 1 : 0) + (looksUp ? 2 : 0); }
    constexpr uint32_t Number() const { return FLAGS * asks + Flags(); }
};

struct LoopForm {
    bool byRow = false;  // or from element to element, all operands contiguous
    LoopWays ways;
    uint64_t inGm = 0;                // a bit for each operand that is in global memory; no chain has more than 64
    std::vector<LoopRows> rows;       // of each operand; none without rows
    std::vector<LoopLink> links;      // END between two chains
    std::vector<SmallStep> sequence;  // if there are any, there is nothing else

    std::string Key() const;
    // What a unit takes, roughly: of each element the half cycles of its links (effort.h), and one more for each link.
    uint32_t Cost() const;
    // Could a store write past the caches, wherever its operand begins at a multiple of STREAMED_BYTES?
    bool MayStream(const LoopLink& store) const;
    // How many operands it reads from global memory.
    uint32_t Inputs() const;
    // May it go over elements twice? A loop over elements that adds nothing up, and overwrites nothing that it reads.
    bool MayOverlap() const;
};

struct Loop {
    std::vector<uint32_t> steps;
    std::vector<std::vector<ChainItem>> items;  // of each step; none: an instruction that no code can be made of
    LoopForm form;                              // no links: it cannot be compiled, or would gain nothing
    bool alone;                                 // it needs nothing of the other loops of the group, nor they of it
};

// Every step that is not left out, in the order in which they may run. `needed`: as for Steps::LeaveOut, which has run.
std::vector<Loop> FindLoops(const Steps& steps, const Groups& groups, const std::vector<Instruction>& instructions,
                            const Ranges& needed);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_LOOPS_H
