/*!
 * Records of the Unified Buffer of one core which bytes hold a value, and who touched each block last.
 */
#ifndef ASCENDC_HOST_CHECKED_LOCAL_MEMORY_H
#define ASCENDC_HOST_CHECKED_LOCAL_MEMORY_H

#include <cstdint>
#include <vector>

#include "checked/order.h"
#include "runtime/core.h"

namespace AscendC {
namespace host {

class LocalMemory {
public:
    LocalMemory() : written_(UB_BYTES), blocks_(UB_BYTES / ONE_BLK_SIZE) {}

    // The range has no contents any more.
    void Forget(uint32_t offset, uint32_t bytes);

    // Checks that the pieces of one operand of a call stay inside the tensor and its buffer.
    void Bounds(const Event& event, const LocalOperand& operand, int64_t offset, uint32_t bytes) const;
    // True if every byte holds a value. With `use`, the value decides something, so there must be one.
    bool Read(const Event& event, uint32_t number, Order& order, uint32_t offset, uint32_t bytes, bool use);
    void Write(const Event& event, uint32_t number, Order& order, uint32_t offset, uint32_t bytes);
    bool IsDefined(uint32_t offset, uint32_t bytes) const;

private:
    struct Block {
        uint32_t write[PIPES] = {};  // number of the last call of each pipe that did
        uint32_t read[PIPES] = {};
    };

    // `written`: the call on event.pipe writes, so that readers count too.
    void Check(const Event& event, Order& order, const Block& block, uint32_t index, bool writes) const;

    std::vector<uint8_t> written_;  // bytes
    std::vector<Block> blocks_;
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_CHECKED_LOCAL_MEMORY_H
