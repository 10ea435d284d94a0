/*!
 * Which stores of a loop (loops.h) somebody needs.
 */
#ifndef ASCENDC_HOST_LIVENESS_H
#define ASCENDC_HOST_LIVENESS_H

#include <cstdint>
#include <vector>

#include "loops.h"

namespace AscendC {
namespace host {

// Goes backwards through the loops of a program, and knows what of the Unified Buffer will be read.
class Liveness {
public:
    // `needed`: when all has run.
    Liveness(const Steps& steps, const std::vector<Instruction>& instructions, const Ranges& needed)
        : steps_(steps), instructions_(instructions), needed_(needed), forgotten_(steps.ForgottenCount())
    {}

    // Marks the stores that something behind the loop needs; what is read within it is in registers.
    void Pass(Loop& loop);

private:
    void Forget(const Loop& loop);
    void MarkNeeded(Loop& loop) const;
    void PassStep(const Step& step);
    void Read(const Operand& operand);

    const Steps& steps_;
    const std::vector<Instruction>& instructions_;
    Ranges needed_;
    uint32_t forgotten_;
    uint32_t lowest_ = UINT32_MAX;  // number of an instruction that was passed
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_LIVENESS_H
