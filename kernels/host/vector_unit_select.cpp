/*!
 * Chooses among the copies of vector_unit.cpp that this library holds.
 */
#include "instruction.h"

namespace AscendC {
namespace host {

#if defined(HOST_PORTABLE_X86)
namespace x86_64_v2 {
const VectorUnit& Table(const char* name);
}
namespace x86_64_v3 {
const VectorUnit& Table(const char* name);
}
namespace x86_64_v4 {
const VectorUnit& Table(const char* name);
}

const VectorUnit& SelectVectorUnit()
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
        return x86_64_v4::Table("x86-64-v4");
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")) {
        return x86_64_v3::Table("x86-64-v3");
    }
    return x86_64_v2::Table("x86-64-v2");
}
#else
namespace native {
const VectorUnit& Table(const char* name);
}

const VectorUnit& SelectVectorUnit()
{
    return native::Table("native");
}
#endif

const VectorUnit* const g_vectorUnit = &SelectVectorUnit();

}  // namespace host
}  // namespace AscendC
