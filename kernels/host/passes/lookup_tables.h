/*!
 * Makes tables of the results of values (value_graph.h) that depend on one element of 16 bits: one entry for each of
 * its 65536 values.
 */
#ifndef ASCENDC_HOST_PASSES_LOOKUP_TABLES_H
#define ASCENDC_HOST_PASSES_LOOKUP_TABLES_H

#include <cstdint>
#include <vector>

#include "ir/value_graph.h"

namespace AscendC {
namespace host {

struct LookupTable {
    const void* entries = nullptr;  // by the bits of the element
    ElementType type = ElementType::FLOAT;
};

// Returns a type of 16 bits if the value was rounded to such; behind the last entry there is room to read 32.
ElementType EntryTypeOf(const Value& value);

// Returns the value and those that it is made of, in their order.
std::vector<int16_t> PartsOf(int16_t value, const std::vector<Value>& values);

// Returns the table of a value, with ones for DataBlocks, which lives as long as the process. The instructions of the
// library make it, so its results are those that the loop would calculate. `entries` is null where there are too many
// tables already.
LookupTable TableOf(int16_t value, const std::vector<Value>& values);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_PASSES_LOOKUP_TABLES_H
