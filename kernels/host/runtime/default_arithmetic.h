/*!
 * Sets how floats are calculated while a block runs, or a library in its place.
 */
#ifndef ASCENDC_HOST_RUNTIME_DEFAULT_ARITHMETIC_H
#define ASCENDC_HOST_RUNTIME_DEFAULT_ARITHMETIC_H

#include <cfenv>

namespace AscendC {
namespace host {

// Keeps subnormal numbers and rounds to nearest, whatever the calling thread does: MindSpore's own threads make zeros
// of subnormal numbers, and so would a thread of the pool that one of them begins.
class DefaultArithmetic {
public:
#if defined(__x86_64__)
    DefaultArithmetic() : callers_(__builtin_ia32_stmxcsr()) { __builtin_ia32_ldmxcsr(DEFAULT); }
    ~DefaultArithmetic() { __builtin_ia32_ldmxcsr(callers_); }
#else
    DefaultArithmetic()
    {
        std::fegetenv(&callers_);
        std::fesetenv(FE_DFL_ENV);
    }
    ~DefaultArithmetic() { std::fesetenv(&callers_); }
#endif
    DefaultArithmetic(const DefaultArithmetic&) = delete;

private:
#if defined(__x86_64__)
    static constexpr unsigned int DEFAULT = 0x1f80;  // no exception is raised
    const unsigned int callers_;
#else
    std::fenv_t callers_;
#endif
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_RUNTIME_DEFAULT_ARITHMETIC_H
