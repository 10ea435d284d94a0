/*!
 * Runs the passes over a recorded program: copies from global memory become views that instructions read in place,
 * instructions are grouped, copies to global memory sink into the group that makes their data, groups become loops.
 */
#ifndef ASCENDC_HOST_PASSES_SCHEDULER_H
#define ASCENDC_HOST_PASSES_SCHEDULER_H

#include <cstdint>
#include <vector>

#include "ir/view.h"
#include "passes/fused_loops.h"
#include "passes/groups.h"
#include "passes/program_order.h"
#include "passes/row_forms.h"

namespace AscendC {
namespace host {

// Holds a program as the passes leave it, to be lowered to a schedule (runtime/lowering.h).
struct FusedProgram {
    std::vector<Instruction> instructions;
    std::vector<Group> groups;
    std::vector<FusedLoop> loops;  // every instruction of the groups, in the order in which they run
    std::vector<const char*> gm;   // the memory of each origin
    std::vector<GmRows> reads;
    std::vector<GmRows> writes;
    std::vector<View> endViews;
};

class Scheduler {
public:
    // `scratch`: memory as large as the Unified Buffer, for what is calculated again.
    explicit Scheduler(const Span& scratch) : scratch_(scratch) {}
    // `views` at the start: the first origins. Request i copies from or to origin views.size() + i. `needed`: the bytes
    // of the Unified Buffer that may be read afterwards.
    FusedProgram Make(const std::vector<View>& views, const Instruction* instructions, uint32_t count,
                      const Ranges& needed);

    static constexpr uint32_t MAX_VIEWS = 12;

private:
    void Take(const Instruction& instruction, int32_t origin);
    void Record(const Instruction& instruction);
    void RecordRows(std::vector<Instruction>& rows);
    void CopyIn(const Instruction& copy, int32_t origin);
    void CopyOut(Instruction copy, int32_t origin);
    void Resolve(Operand& operand, uint32_t iterations);
    bool ReadInPlace(const View& view, Operand& operand, uint32_t iterations) const;
    void Overwrite(const Span& span, bool gapless);
    void Materialize(uint32_t view);
    void RemoveView(uint32_t view);
    void Discard(const Span& freed);
    void FindLoops(const Ranges& needed);

    FusedProgram program_;
    std::vector<View> views_;
    RowForms rowForms_;
    Groups groups_;
    std::vector<Killed> killed_;
    const Span scratch_;
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_PASSES_SCHEDULER_H
