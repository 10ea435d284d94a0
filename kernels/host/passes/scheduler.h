/*!
 * Makes a schedule of a recorded program: copies from global memory become views that instructions read in place,
 * instructions are grouped, copies to global memory sink into the group that makes their data.
 */
#ifndef ASCENDC_HOST_PASSES_SCHEDULER_H
#define ASCENDC_HOST_PASSES_SCHEDULER_H

#include <cstdint>
#include <vector>

#include "passes/fused_loops.h"
#include "passes/groups.h"
#include "passes/program_order.h"
#include "passes/row_forms.h"
#include "runtime/schedule.h"

namespace AscendC {
namespace host {

class Scheduler {
public:
    // `scratch`: memory as large as the Unified Buffer, for what is calculated again.
    explicit Scheduler(const Span& scratch) : scratch_(scratch) {}
    // `views` at the start: the first origins. Request i copies from or to origin views.size() + i. `needed`: the bytes
    // of the Unified Buffer that may be read afterwards.
    void Make(const std::vector<View>& views, const Instruction* instructions, uint32_t count, const Ranges& needed,
              Schedule& schedule);

    static constexpr uint32_t MAX_VIEWS = 12;

private:
    void Take(const Instruction& instruction, int32_t origin);
    void Record(const Instruction& instruction);
    void RecordRows(std::vector<Instruction>& rows);
    void CopyIn(const Instruction& copy, int32_t origin);
    void CopyOut(Instruction copy, int32_t origin);
    void Resolve(Operand& operand, uint32_t units);
    bool ReadInPlace(const View& view, Operand& operand, uint32_t units) const;
    void Overwrite(const Span& span, bool gapless);
    void Materialize(uint32_t view);
    void RemoveView(uint32_t view);
    void Discard(const Span& freed);
    static Schedule::GmRows GmRowsOf(const View& view);
    void Relocate(const Operand& operand, char*& place);
    void RelocateOperands(Instruction& instruction);
    void CompileLoop(const FusedLoop& loop);
    const Instruction* OnlyInstruction(const FusedLoop& loop) const;
    uint32_t CompileStraightLine(const std::vector<FusedLoop>& loops, size_t first);
    void Compile(const Ranges& needed);

    std::vector<View> views_;
    RowForms rowForms_;
    std::vector<const char*> gm_;  // of each origin
    Groups groups_;
    std::vector<Group> list_;  // when all instructions are in one
    std::vector<Killed> killed_;
    const Span scratch_;
    Schedule* schedule_ = nullptr;
    static constexpr uint32_t NO_GROUP = UINT32_MAX;
    uint32_t lastGroup_ = NO_GROUP;  // that the schedule has a step of
    uint32_t coded_ = NO_GROUP;      // the last one with a loop that has code
    uint32_t rows_ = NO_GROUP;       // the group whose rows may go round-robin
    size_t firstOfRows_ = 0;         // of the schedule's groups
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_PASSES_SCHEDULER_H
