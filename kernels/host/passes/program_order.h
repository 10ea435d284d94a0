/*!
 * Knows where the instructions of groups stood in the program, and where it gave bytes up.
 */
#ifndef ASCENDC_HOST_PASSES_PROGRAM_ORDER_H
#define ASCENDC_HOST_PASSES_PROGRAM_ORDER_H

#include <cstdint>
#include <vector>

#include "ir/memory.h"

namespace AscendC {
namespace host {

// Bytes of the Unified Buffer are dead for instructions from `number` on.
struct Killed {
    uint32_t number;
    Span span;
};

struct ProgramOrder {
    std::vector<uint32_t> numbers;  // of each instruction
    std::vector<Killed> killed;     // by number
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_PASSES_PROGRAM_ORDER_H
