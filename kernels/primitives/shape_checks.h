/*!
 * Refuses shapes that a graph learns only when it runs, in the words of ms_ascend_ops/checks/. It is plain C++, for
 * tilings.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_SHAPE_CHECKS_H
#define MS_ASCEND_OPS_PRIMITIVES_SHAPE_CHECKS_H

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "interface/launch_config.h"

namespace ms_ascend_ops {

// Prints the first `rank` dims as Python prints a tuple.
inline std::string ShapeText(const TensorDesc& tensor, int32_t rank)
{
    std::string text = "(";
    for (int32_t i = 0; i < rank; ++i) {
        text += (i == 0 ? "" : ", ") + std::to_string(tensor.dims[i]);
    }
    return text + (rank == 1 ? ",)" : ")");
}

inline std::string ShapeText(const TensorDesc& tensor)
{
    return ShapeText(tensor, tensor.rank);
}

inline bool HaveSameShape(const TensorDesc& a, const TensorDesc& b)
{
    return a.rank == b.rank && std::equal(a.dims, a.dims + a.rank, b.dims);
}

[[noreturn]] inline void Refuse(const std::string& rule, const std::string& got)
{
    throw std::invalid_argument(rule + ", got " + got);
}

inline void CheckLastDim(const TensorDesc& tensor, const char* name, int64_t most)
{
    if (tensor.LastDim() > most) {
        Refuse(std::string(name) + ".shape[-1] must be at most " + std::to_string(most), ShapeText(tensor));
    }
}

inline void CheckSlots(const TensorDesc& keyCache, int64_t most)
{
    if (keyCache.Product(0, 2) > most) {
        Refuse("the cache must have at most " + std::to_string(most) + " slots",
               "key_cache of shape " + ShapeText(keyCache));
    }
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_SHAPE_CHECKS_H
