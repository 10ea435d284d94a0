/*!
 * The results of terms (loop_terms.h) that depend on one element of 16 bits, for each of the 65536 that there are.
 */
#ifndef ASCENDC_HOST_PASSES_LOOKUP_TABLES_H
#define ASCENDC_HOST_PASSES_LOOKUP_TABLES_H

#include <cstdint>
#include <vector>

#include "ir/instruction.h"
#include "ir/loop_terms.h"

namespace AscendC {
namespace host {

struct LookupTable {
    const void* entries = nullptr;  // by the bits of the element
    ElementType type = ElementType::FLOAT;
};

// Of 16 bits, if the term was rounded to such; behind the last one there is room to read 32.
ElementType EntryTypeOf(const Term& term);

// The term and those that it is made of, in their order.
std::vector<int32_t> PartsOf(int32_t term, const std::vector<Term>& terms);

// The table of a term, with ones for DataBlocks, which lives as long as the process. Fused sequences make it, so its
// results are those that the loop would calculate. `entries` is null where there are too many tables already.
LookupTable TableOf(int32_t term, const std::vector<Term>& terms);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_PASSES_LOOKUP_TABLES_H
