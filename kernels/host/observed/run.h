/*!
 * Holds the state of an observed launch, which its hooks and its runner share.
 */
#ifndef ASCENDC_HOST_OBSERVED_RUN_H
#define ASCENDC_HOST_OBSERVED_RUN_H

#include <vector>

#include "observed/observer.h"
#include "runtime/core.h"

namespace AscendC {
namespace host {

constexpr uint32_t HARD_EVENTS = 12;

struct ObservedCore {
    std::vector<Buffer> buffers;          // number 1 first
    uint32_t eventIds[HARD_EVENTS] = {};  // allocated ones, a bit each
    Core* core = nullptr;
};

ObservedCore& CoreState(uint32_t core);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_OBSERVED_RUN_H
