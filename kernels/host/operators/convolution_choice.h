/*!
 * Says which of the library's implementations of a convolution are ahead of the kernel, and with which formats.
 */
#ifndef ASCENDC_HOST_OPERATORS_CONVOLUTION_CHOICE_H
#define ASCENDC_HOST_OPERATORS_CONVOLUTION_CHOICE_H

#include <cstdint>
#include <string_view>
#include <vector>

#include "operators/convolution.h"

namespace AscendC {
namespace host {
namespace convolutions {

using ms_ascend_ops::DataType;

enum class Format : uint8_t { ANY, FIRST, LAST, BLOCKS };  // the library's choice; where channels are; in blocks

struct Choice {
    Format x;
    Format y;
};

bool IsDepthwise(const Convolution& c);
// Returns the formats to try, the best first; none where the kernel is ahead.
std::vector<Choice> ChoicesOf(const Convolution& c);
// Returns true if the implementation of that name is ahead of the kernel.
bool IsAhead(const Convolution& c, std::string_view implementation);
// Returns how many threads the library is told of: for each 8 million operations one, about a tenth of a millisecond,
// and a power of two, which threads share evenly. Smaller shares cost up to a tenth.
int SharesOf(const Convolution& c);
// Returns for how many positions the library adds products up one after the other. The sums of bfloat16 that it makes
// in one go are off by less than their rounding.
int64_t MostPositions(DataType type);

}  // namespace convolutions
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_OPERATORS_CONVOLUTION_CHOICE_H
