#include "passes/cost_model.h"

namespace AscendC {
namespace host {

ArithmeticCost CostOf(const Value& value)
{
    if (value.kind == ValueKind::ROUND) {
        return {3, 0, 0};
    }
    if (value.kind == ValueKind::STORE) {
        return {1, 0, 0};
    }
    if (value.kind != ValueKind::COMPUTE && value.kind != ValueKind::COLLECT) {
        return {};
    }
    switch (value.opcode) {
        case Opcode::EXP:
            return {10, 0, 0};
        case Opcode::LN:
            return {24, 0, 0};
        case Opcode::SQRT:
        case Opcode::DIV:
            return {1, 1, 0};
        default:
            return {1, 0, 0};
    }
}

uint32_t CostOf(const LoopForm& form)
{
    uint32_t cost = 0;
    for (const Value& value : form.values) {
        cost += (1 + CostOf(value).Time(FAST_TIMINGS)) * std::max<uint32_t>(value.elements, 1);
    }
    return cost;
}

}  // namespace host
}  // namespace AscendC
