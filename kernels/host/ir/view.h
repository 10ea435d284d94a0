/*!
 * Describes rows of global memory, and copies of them into the Unified Buffer that were not made.
 */
#ifndef ASCENDC_HOST_IR_VIEW_H
#define ASCENDC_HOST_IR_VIEW_H

#include "ir/memory.h"

namespace AscendC {
namespace host {

// A view is a copy from global memory that was not made: instructions read the source in place, until the copy is
// written to.
struct View {
    Span ub;  // from the first byte to the last valid one
    const char* gm;
    Rows rows;  // in UB
    int64_t gmStride;
    int32_t origin;

    const char* GmEnd() const { return gm + gmStride * (rows.rows - 1) + rows.rowBytes; }
};

// A program reads or writes these rows of global memory.
struct GmRows {
    int32_t origin;  // where the first one is
    Rows rows;
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_IR_VIEW_H
