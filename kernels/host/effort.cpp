#include "effort.h"

namespace AscendC {
namespace host {

Effort EffortOf(Link link)
{
    switch (link) {
        case Link::LOAD_FLOAT:
        case Link::LOAD_HALF:
        case Link::LOAD_BFLOAT16:
        case Link::END:
            return {};
        case Link::ROUND_HALF:
        case Link::ROUND_BFLOAT16:
            return {3, 0, 0};
        case Link::EXP:
            return {10, 0, 0};
        case Link::LN:
            return {24, 0, 0};
        case Link::SQRT:
            return {1, 1, 0};
        default:
            const bool divides = link >= Link::BINARY && OpcodeOf(link) == Opcode::DIV;
            return {1, divides ? 1u : 0u, 0};
    }
}

}  // namespace host
}  // namespace AscendC
