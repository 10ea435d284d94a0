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

}  // namespace host
}  // namespace AscendC
