/*!
 * Makes a plan of what a kernel asked for: copies from global memory become views that instructions read in place,
 * instructions are grouped, copies to global memory sink into the group that makes their data.
 */
#ifndef ASCENDC_HOST_PLANNER_H
#define ASCENDC_HOST_PLANNER_H

#include <cstdint>
#include <vector>

#include "groups.h"
#include "loops.h"
#include "plan.h"
#include "row_forms.h"
#include "steps.h"

namespace AscendC {
namespace host {

class Planner {
public:
    // `views` at the start: the first origins. Request i copies from or to origin views.size() + i. `needed`: the bytes
    // of the Unified Buffer that somebody may read afterwards.
    void Make(const std::vector<View>& views, const Instruction* requests, uint32_t count, const Ranges& needed,
              Plan& plan);

    static constexpr uint32_t MAX_VIEWS = 12;

private:
    void Take(const Instruction& request, int32_t origin);
    void Record(const Instruction& instruction);
    void RecordRows(std::vector<Instruction>& rows);
    Instruction ByRowsOfView(const Instruction& instruction) const;
    void CopyIn(const Instruction& copy, int32_t origin);
    void CopyOut(Instruction copy, int32_t origin);
    void Resolve(Operand& operand, uint32_t units);
    bool ReadInPlace(const View& view, Operand& operand, uint32_t units) const;
    void Overwrite(const Span& span, bool gapless);
    void Materialize(uint32_t view);
    void RemoveView(uint32_t view);
    void Discard(const Span& freed);
    static Plan::GmRows GmRowsOf(const View& view);
    void Relocate(const Operand& operand, char*& place);
    void CompileChain(const std::vector<ChainItem>& items);
    void CompileLoop(const Loop& loop);
    const Instruction* OnlyInstruction(const Loop& loop) const;
    uint32_t CompileSequence(const std::vector<Loop>& loops, size_t first);
    void Compile(const Ranges& needed);

    std::vector<View> views_;
    RowForms rowForms_;
    std::vector<const char*> gm_;  // of each origin
    Groups groups_;
    Steps steps_;
    Plan* plan_ = nullptr;
    static constexpr uint32_t NO_GROUP = UINT32_MAX;
    uint32_t lastGroup_ = NO_GROUP;  // that the plan has a step of
    uint32_t coded_ = NO_GROUP;      // the last one with a loop that has code
    uint32_t rows_ = NO_GROUP;       // the group whose rows may take turns
    size_t firstOfRows_ = 0;         // of the plan's groups
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_PLANNER_H
