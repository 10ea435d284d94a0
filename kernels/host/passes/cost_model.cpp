#include "passes/cost_model.h"

namespace AscendC {
namespace host {

ArithmeticCost CostOf(NodeKind node)
{
    switch (node) {
        case NodeKind::LOAD_FLOAT:
        case NodeKind::LOAD_HALF:
        case NodeKind::LOAD_BFLOAT16:
        case NodeKind::END:
            return {};
        case NodeKind::ROUND_HALF:
        case NodeKind::ROUND_BFLOAT16:
            return {3, 0, 0};
        case NodeKind::EXP:
            return {10, 0, 0};
        case NodeKind::LN:
            return {24, 0, 0};
        case NodeKind::SQRT:
            return {1, 1, 0};
        default:
            const bool divides = node >= NodeKind::BINARY && OpcodeOf(node) == Opcode::DIV;
            return {1, divides ? 1u : 0u, 0};
    }
}

uint32_t CostOf(const LoopForm& form)
{
    uint32_t cost = 0;
    for (const LoopNode& node : form.nodes) {
        cost += node.kind == NodeKind::END
                    ? 0
                    : (1 + CostOf(node.kind).Time(FAST_TIMINGS)) * std::max<uint32_t>(node.elements, 1);
    }
    return cost;
}

}  // namespace host
}  // namespace AscendC
