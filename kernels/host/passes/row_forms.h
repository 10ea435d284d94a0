/*!
 * Takes instructions on several rows apart, so that one pass does all instructions on a row (fused_loops.h).
 */
#ifndef ASCENDC_HOST_PASSES_ROW_FORMS_H
#define ASCENDC_HOST_PASSES_ROW_FORMS_H

#include <cstdint>
#include <vector>

#include "ir/memory.h"

namespace AscendC {
namespace host {

// Returns the rows of a copy, whose operand `ub` is in the Unified Buffer. Rows that follow each other without a gap
// are one row.
Rows RowsOf(const Instruction& copy, uint32_t ub, int64_t& gmStride);

// Requests that do the same to neighbouring columns of the same rows, as tiles of many rows are worked on.
struct Sweep {
    uint32_t length = 0;  // instructions; 0: there is none
    uint32_t columns = 0;
    bool folds = false;  // the columns are collected in operand 0

    // Makes the instruction of one of the rows.
    Instruction Row(const Instruction& first, uint32_t row) const;
};

class RowForms {
public:
    // Finds the rows of a program. An instruction on the elements of several rows is taken apart where its rows lie
    // apart in global memory and side by side in the Unified Buffer, and where the kernel does something to row after
    // row; and with it all instructions on as many elements.
    void Find(const Instruction* instructions, uint32_t count);
    // Returns how many of its iterations make up a row, if it is to be taken apart; else all of them.
    uint32_t RowIterations(const Instruction& instruction) const;
    // Returns the sweep that begins with the first instruction, if its rows are to be worked on one by one.
    static Sweep SweepFrom(const Instruction* instructions, uint32_t count);

private:
    struct Form {
        uint32_t iterations;
        uint32_t rowIterations;
    };

    void Add(uint32_t rows, uint32_t rowIterations, uint32_t least);

    std::vector<Form> forms_;
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_PASSES_ROW_FORMS_H
