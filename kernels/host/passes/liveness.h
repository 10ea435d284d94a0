/*!
 * Liveness: which stores of a loop (fused_loops.h) are read later.
 */
#ifndef ASCENDC_HOST_PASSES_LIVENESS_H
#define ASCENDC_HOST_PASSES_LIVENESS_H

#include <cstdint>
#include <vector>

#include "passes/fused_loops.h"

namespace AscendC {
namespace host {

// Goes backwards through the loops of a program, and knows the live bytes of the Unified Buffer.
class Liveness {
public:
    // `needed`: when all has run.
    Liveness(const Steps& steps, const std::vector<Instruction>& instructions, const Ranges& needed)
        : steps_(steps), instructions_(instructions), needed_(needed), killed_(steps.KilledCount())
    {}

    // Marks the stores that something behind the loop needs; reads within it are from registers.
    void Pass(FusedLoop& loop);

private:
    void Kill(const FusedLoop& loop);
    void MarkNeeded(FusedLoop& loop) const;
    void PassStep(const Step& step);
    void Read(const Operand& operand);

    const Steps& steps_;
    const std::vector<Instruction>& instructions_;
    Ranges needed_;
    uint32_t killed_;
    uint32_t lowest_ = UINT32_MAX;  // number of an instruction that was passed
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_PASSES_LIVENESS_H
