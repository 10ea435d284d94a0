/*!
 * Writes the prefetches of a loop: of the lines that its own later iterations access, and of the next tile
 * (runtime/prefetch.h).
 */
#ifndef ASCENDC_HOST_JIT_LOOP_PREFETCHES_H
#define ASCENDC_HOST_JIT_LOOP_PREFETCHES_H

#include <string>

#include "ir/loop_form.h"
#include "jit/ir_builder.h"

namespace AscendC {
namespace host {

class LoopPrefetches {
public:
    // `elements`: that an iteration goes over, if not a row. `entry` is in front of the loop, `ir` its body.
    LoopPrefetches(const LoopForm& form, uint32_t elements, IrBuilder& entry, IrBuilder& ir)
        : form_(form), elements_(elements), entry_(entry), ir_(ir)
    {}

    // Prefetches the lines that later iterations read from global memory, and those that they write there.
    void Emit();
    // Prefetches from the next tile, %prefetched bytes of which the loop has prefetched. Returns how many it has then.
    std::string EmitNextTile();

private:
    void Emit(const Value& value, bool writes);
    void PrepareNextTile();

    const LoopForm& form_;
    const uint32_t elements_;
    IrBuilder& entry_;
    IrBuilder& ir_;
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_JIT_LOOP_PREFETCHES_H
