/*!
 * Keeps the code of loops (fused_loops.h): one function for all of the same form, compiled while the program runs.
 *
 * The host layer does not compile. It queues the forms that are worth it, with their IR; LLVM in
 * ms_ascend_ops/loop_compiler.py returns an address. Until then, or without a compiler, instructions run
 * one by one.
 */
#ifndef ASCENDC_HOST_JIT_LOOP_CODE_H
#define ASCENDC_HOST_JIT_LOOP_CODE_H

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "ir/loop_form.h"
#include "jit/loop_ahead.h"

namespace AscendC {
namespace host {

// See WriteLoop (loop_ir.h).
using LoopFunction = void (*)(const char* const* bases, uint64_t begin, uint64_t end, LoopAhead* ahead);

class LoopCode {
public:
    LoopCode(const LoopForm& form, uint32_t number);

    // The function is null while it is not compiled, or if it never will be.
    LoopFunction Function() const { return function_.load(std::memory_order_acquire); }
    // Returns the best variant that is compiled and that operands there allow; or Function().
    LoopFunction Function(LoopVariant variant, const char* const* bases) const;
    // Requests the code, and its variant as far as operands there allow, if that is not done yet.
    void Request(LoopVariant variant, const char* const* bases);

private:
    friend struct LoopRequests;

    bool Suits(const char* const* bases) const;

    const LoopForm form_;
    const uint32_t number_;
    // The variant of the form is right where the first of these operands are aligned, and the others have DataBlocks of
    // ones.
    std::vector<uint8_t> nonTemporal_;
    std::vector<uint8_t> ones_;
    bool requested_ = false;
    std::atomic<LoopFunction> function_{nullptr};
    std::array<std::atomic<LoopCode*>, LoopVariant::COUNT> others_{};  // by variant: the same form otherwise
};

// Returns the code of this form, which lives as long as the process; null: there is no compiler, or there are too many.
LoopCode* FindLoopCode(const LoopForm& form);

// Returns and sets how much a schedule must have done before its loops are requested, in strips of an instruction.
uint64_t LoopThreshold();
void SetLoopThreshold(uint64_t strips);

// Serves the compiler: `visit` gets the next form that was requested, as IR with a function `name`. With `wait` it
// returns when there is one. False: there is none, or StopLoops was called.
using LoopVisitor = void (*)(void* context, uint32_t number, const char* name, const char* text);
bool NextLoop(bool wait, LoopVisitor visit, void* context);
// `function`: where the code of that number is; null: it could not be compiled.
void SetLoop(uint32_t number, LoopFunction function);
// Returns how many loops were requested and have no address yet.
uint32_t PendingLoops();
// Nothing is handed out any more.
void StopLoops();

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_JIT_LOOP_CODE_H
