#include "ir/loop_form.h"

namespace AscendC {
namespace host {

std::string LoopForm::Key() const
{
    const char kind = straightLine.empty() ? (byRow ? 'r' : 'e') : 's';
    std::string key = {kind, static_cast<char>('0' + variant.Number())};
    key.append(reinterpret_cast<const char*>(&inGm), sizeof(inGm));
    key.append(reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(rows[0]));
    key.append(reinterpret_cast<const char*>(nodes.data()), nodes.size() * sizeof(nodes[0]));
    return key.append(reinterpret_cast<const char*>(straightLine.data()),
                      straightLine.size() * sizeof(straightLine[0]));
}

bool LoopForm::MayStoreNonTemporally(const LoopNode& store) const
{
    return store.needed == LoopNode::IN_GM && (!byRow || rows[store.operand].stride % NON_TEMPORAL_BYTES == 0);
}

uint32_t LoopForm::Inputs() const
{
    uint64_t read = 0;  // a bit for each operand
    for (const LoopNode& node : nodes) {
        read |= node.operand == LoopNode::NO_OPERAND || Stores(node.kind) ? 0 : inGm & 1ull << node.operand;
    }
    return static_cast<uint32_t>(__builtin_popcountll(read));
}

bool LoopForm::MayOverlap() const
{
    uint64_t read = 0;  // before it is stored; a bit for each operand
    uint64_t stored = 0;
    bool collects = false;
    for (const LoopNode& node : nodes) {
        const uint64_t bit = node.operand == LoopNode::NO_OPERAND ? 0 : 1ull << node.operand;
        read |= Stores(node.kind) ? 0 : bit & ~stored;
        stored |= Stores(node.kind) ? bit : 0;
        collects = collects || Collects(node.kind);
    }
    return !byRow && !collects && (read & stored) == 0;
}

}  // namespace host
}  // namespace AscendC
