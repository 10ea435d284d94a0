#include "ir/operation.h"

#include <unordered_map>
#include <utility>
#include <vector>

#include "api/types.h"

namespace AscendC {
namespace host {

namespace {

Operation::Kind KindOf(Opcode opcode)
{
    if (static_cast<uint32_t>(opcode) < BINARY_OPCODES) {
        return Operation::BINARY;
    }
    if (opcode == Opcode::AXPY) {
        return Operation::AXPY;
    }
    return opcode < Opcode::EXP ? Operation::SCALAR : Operation::UNARY;
}

using Operations = std::unordered_map<RunFn, Operation>;

Operations AllOperations()
{
    Operations operations;
    const auto add = [&](RunFn run, const Operation& operation) {
        if (run != nullptr) {
            operations.emplace(run, operation);
        }
    };
    for (uint32_t op = 0; op < OPCODES; ++op) {
        for (const Layout layout : {Layout::CONTIGUOUS, Layout::BROADCAST0, Layout::BROADCAST1, Layout::ACCUMULATE}) {
            const Opcode opcode = static_cast<Opcode>(op);
            const bool collects = opcode == Opcode::ADD || opcode == Opcode::MAX || opcode == Opcode::MIN;
            if (layout == Layout::ACCUMULATE && !collects) {
                continue;
            }
            add(g_vectorUnit->arithmetic[op][static_cast<uint32_t>(ElementType::FLOAT)][static_cast<uint32_t>(layout)],
                {KindOf(opcode), opcode, layout, ElementType::FLOAT, ElementType::FLOAT});
        }
    }
    for (const ElementType narrow : {ElementType::HALF, ElementType::BFLOAT16}) {
        const uint32_t type = static_cast<uint32_t>(narrow);
        const uint32_t floats = static_cast<uint32_t>(ElementType::FLOAT);
        add(g_vectorUnit->cast[type][floats][0],
            {Operation::CAST, Opcode::ADD, Layout::CONTIGUOUS, narrow, ElementType::FLOAT});
        add(g_vectorUnit->cast[floats][type][0],
            {Operation::CAST, Opcode::ADD, Layout::CONTIGUOUS, ElementType::FLOAT, narrow});
    }
    return operations;
}

using ElementRuns = std::unordered_map<RunFn, RunFn>;
using LayoutPairs = std::vector<std::pair<Layout, Layout>>;  // by repeats, by elements

// The loops of two layouts that do the same, one by repeats and one by elements.
template <class F>
void ForEachPair(const LayoutPairs& layouts, F&& add)
{
    const auto addPair = [&add](RunFn byRepeat, RunFn byElement) {
        if (byRepeat != nullptr && byElement != nullptr) {
            add(byRepeat, byElement);
        }
    };
    for (const auto& types : g_vectorUnit->arithmetic) {
        const auto& runs = types[static_cast<uint32_t>(ElementType::FLOAT)];
        for (const auto& [byRepeat, byElement] : layouts) {
            addPair(runs[static_cast<uint32_t>(byRepeat)], runs[static_cast<uint32_t>(byElement)]);
        }
    }
    for (const auto& from : g_vectorUnit->cast) {
        for (const auto& to : from) {
            addPair(to[1], to[0]);
        }
    }
}

LayoutPairs ElementWise()
{
    return {{Layout::REPEAT, Layout::CONTIGUOUS},
            {Layout::REPEAT_BROADCAST0, Layout::BROADCAST0},
            {Layout::REPEAT_BROADCAST1, Layout::BROADCAST1}};
}

ElementRuns AllElementRuns()
{
    LayoutPairs layouts = ElementWise();
    layouts.emplace_back(Layout::FOLD, Layout::ACCUMULATE);
    layouts.emplace_back(Layout::ACCUMULATE_REPEAT, Layout::CONTIGUOUS);
    ElementRuns runs;
    ForEachPair(layouts, [&runs](RunFn byRepeat, RunFn byElement) { runs.emplace(byRepeat, byElement); });
    return runs;
}

ElementRuns AllRepeatRuns()
{
    ElementRuns runs;
    ForEachPair(ElementWise(), [&runs](RunFn byRepeat, RunFn byElement) { runs.emplace(byElement, byRepeat); });
    return runs;
}

}  // namespace

RunFn ElementRunOf(RunFn run)
{
    static const ElementRuns runs = AllElementRuns();
    const auto found = runs.find(run);
    return found == runs.end() ? nullptr : found->second;
}

RunFn RepeatRunOf(RunFn run)
{
    static const ElementRuns runs = AllRepeatRuns();
    const auto found = runs.find(run);
    return found == runs.end() ? nullptr : found->second;
}

Operation OperationOf(const Instruction& instruction)
{
    static const Operations operations = AllOperations();
    if (instruction.run == g_vectorUnit->copy) {
        const Operand& to = instruction.operands[0];
        const bool byElement = to.stride == to.extent && to.stride == instruction.operands[1].stride;
        return {byElement ? Operation::COPY : Operation::OPAQUE};
    }
    const auto found = operations.find(instruction.run);
    if (found == operations.end()) {
        return {};
    }
    const RoundMode mode = static_cast<RoundMode>(instruction.option);
    const bool directed = mode != RoundMode::CAST_NONE && mode != RoundMode::CAST_RINT;
    if (found->second.kind == Operation::CAST && found->second.from == ElementType::FLOAT && directed) {
        return {};
    }
    return found->second;
}

}  // namespace host
}  // namespace AscendC
