#include "observed/observer.h"

namespace AscendC {
namespace host {

const char* NameOf(Dtype dtype)
{
    constexpr const char* names[] = {"int8_t",  "uint8_t",  "int16_t", "uint16_t", "half",    "bfloat16_t",
                                     "int32_t", "uint32_t", "float",   "int64_t",  "uint64_t"};
    return names[static_cast<uint32_t>(dtype)];
}

const char* NameOf(TPosition position)
{
    constexpr const char* names[] = {"GM", "A1",  "A2",  "B1",    "B2",     "C1",
                                     "C2", "CO1", "CO2", "VECIN", "VECOUT", "VECCALC"};
    return names[static_cast<uint32_t>(position)];
}

const char* NameOf(HardEvent event)
{
    constexpr const char* names[] = {"MTE2_V", "V_MTE2", "V_MTE3", "MTE3_V", "MTE2_MTE3", "MTE3_MTE2",
                                     "V_S",    "S_V",    "MTE2_S", "S_MTE2", "MTE3_S",    "S_MTE3"};
    return names[static_cast<uint32_t>(event)];
}

const char* NameOf(pipe_t pipe)
{
    constexpr const char* names[] = {"S", "V", "M", "MTE1", "MTE2", "MTE3", "ALL"};
    return names[static_cast<uint32_t>(pipe)];
}

pipe_t ProducerOf(HardEvent event)
{
    constexpr pipe_t pipes[] = {PIPE_MTE2, PIPE_V, PIPE_V,    PIPE_MTE3, PIPE_MTE2, PIPE_MTE3,
                                PIPE_V,    PIPE_S, PIPE_MTE2, PIPE_S,    PIPE_MTE3, PIPE_S};
    return pipes[static_cast<uint32_t>(event)];
}

pipe_t ConsumerOf(HardEvent event)
{
    constexpr pipe_t pipes[] = {PIPE_V, PIPE_MTE2, PIPE_MTE3, PIPE_V,    PIPE_MTE3, PIPE_MTE2,
                                PIPE_S, PIPE_V,    PIPE_S,    PIPE_MTE2, PIPE_S,    PIPE_MTE3};
    return pipes[static_cast<uint32_t>(event)];
}

}  // namespace host
}  // namespace AscendC
