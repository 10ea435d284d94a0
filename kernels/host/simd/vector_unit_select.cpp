/*!
 * Chooses among the copies of vector_unit.cpp that this library holds.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "simd/vector_unit.h"

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

namespace {

struct Level {
    const char* name;
    bool isSupported;
    const VectorUnit& (*table)(const char* name);
};

}  // namespace

// The best that this CPU has, or the one that MS_ASCEND_OPS_VECTOR_UNIT names, for tests.
const VectorUnit& SelectVectorUnit()
{
    __builtin_cpu_init();
    const bool hasV4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    const bool hasV3 =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    const Level levels[] = {{"x86-64-v4", hasV4, &x86_64_v4::Table},
                            {"x86-64-v3", hasV3, &x86_64_v3::Table},
                            {"x86-64-v2", true, &x86_64_v2::Table}};
    const char* wanted = std::getenv("MS_ASCEND_OPS_VECTOR_UNIT");
    for (const Level& level : levels) {
        if (wanted != nullptr && level.isSupported && std::strcmp(wanted, level.name) == 0) {
            return level.table(level.name);
        }
    }
    if (wanted != nullptr) {
        std::fprintf(stderr, "ms_ascend_ops: this CPU has no vector unit '%s'; MS_ASCEND_OPS_VECTOR_UNIT is ignored\n",
                     wanted);
    }
    const Level& best = hasV4 ? levels[0] : hasV3 ? levels[1] : levels[2];
    return best.table(best.name);
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

const char* VectorUnitName()
{
    return g_vectorUnit->name;
}

}  // namespace host
}  // namespace AscendC
