/*!
 * Tilings and kernels of operators on the tokens of experts agree on this. It is plain C++.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_EXPERT_ENTRIES_H
#define MS_ASCEND_OPS_PRIMITIVES_EXPERT_ENTRIES_H

#include <cstdint>

namespace ms_ascend_ops {

constexpr uint32_t MOST_ENTRIES = 256;   // pairs of token and expert whose places a core holds
constexpr uint32_t MOST_EXPERTS = 1024;  // whose tokens a core counts

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_EXPERT_ENTRIES_H
