/*!
 * Chooses among the copies of vector_unit.cpp that this library holds.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "simd/vector_unit.h"

namespace AscendC {
namespace host {

// Declares the copy for an instruction set. A build has some of them.
#define VECTOR_UNIT(isa)                       \
    namespace isa {                            \
    const VectorUnit& Table(const char* name); \
    }
VECTOR_UNIT(native)
VECTOR_UNIT(x86_64_v2)
VECTOR_UNIT(x86_64_v3)
VECTOR_UNIT(x86_64_v4)
VECTOR_UNIT(armv8)
VECTOR_UNIT(armv8_dotprod)
VECTOR_UNIT(armv8_bf16)
#undef VECTOR_UNIT

namespace {

struct Level {
    const char* name;
    bool isSupported;
    const VectorUnit& (*table)(const char* name);
};

#if defined(HOST_PORTABLE_X86)
// __builtin_cpu_supports knows this name from g++ 11 on, and that of clang 14 does not.
bool HasF16c()
{
    unsigned int a = 0;
    unsigned int b = 0;
    unsigned int c = 0;
    unsigned int d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

// These are the levels of this build, the best first; the last one runs on every CPU of the architecture.
std::vector<Level> Levels()
{
#if defined(HOST_PORTABLE_X86)
    __builtin_cpu_init();
    const bool hasV4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    const bool hasV3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasF16c();
    return {{"x86-64-v4", hasV4, &x86_64_v4::Table},
            {"x86-64-v3", hasV3, &x86_64_v3::Table},
            {"x86-64-v2", true, &x86_64_v2::Table}};
#elif defined(HOST_PORTABLE_AARCH64)
    // The numbers are Linux's; headers of older systems do not know all.
    const auto has = [](unsigned long word, unsigned int bit) { return (getauxval(word) >> bit & 1) != 0; };
    const bool hasDotprod = has(AT_HWCAP, 20);
    return {
#if defined(HOST_PORTABLE_BF16)
        {"armv8-bf16", hasDotprod && has(AT_HWCAP2, 14), &armv8_bf16::Table},
#endif
        {"armv8-dotprod", hasDotprod, &armv8_dotprod::Table},
        {"armv8", true, &armv8::Table}};
#else
    return {{"native", true, &native::Table}};
#endif
}

}  // namespace

// Gives the best that this CPU has, or the one that MS_ASCEND_OPS_VECTOR_UNIT names, for tests.
const VectorUnit& SelectVectorUnit()
{
    const std::vector<Level> levels = Levels();
    const char* const wanted = std::getenv("MS_ASCEND_OPS_VECTOR_UNIT");
    const Level* best = nullptr;
    for (const Level& level : levels) {
        if (!level.isSupported) {
            continue;
        }
        if (wanted != nullptr && std::strcmp(wanted, level.name) == 0) {
            return level.table(level.name);
        }
        best = best == nullptr ? &level : best;
    }
    if (wanted != nullptr && levels.size() > 1) {
        std::fprintf(stderr, "ms_ascend_ops: this CPU has no vector unit '%s'; MS_ASCEND_OPS_VECTOR_UNIT is ignored\n",
                     wanted);
    }
    return best->table(best->name);
}

const VectorUnit* const g_vectorUnit = &SelectVectorUnit();

const char* VectorUnitName()
{
    return g_vectorUnit->name;
}

}  // namespace host
}  // namespace AscendC
