#include "ir/loop_terms.h"

#include <algorithm>
#include <cstring>

namespace AscendC {
namespace host {

namespace {

bool IsOfHalf(NodeKind node)
{
    return node == NodeKind::ROUND_HALF || node == NodeKind::LOAD_HALF;
}

}  // namespace

LoopTerms::LoopTerms(const LoopForm& form)
    : results_(form.nodes.size(), Term::NONE), known_(LoopNode::NO_OPERAND, Term::NONE)
{
    int32_t value = Term::NONE;
    for (const LoopNode& node : form.nodes) {
        if (node.kind == NodeKind::END) {
            continue;
        }
        if (Loads(node.kind)) {
            value = Read(node);
            continue;
        }
        if (Collects(node.kind)) {
            kept_.push_back(value);
            continue;
        }
        if (!Stores(node.kind)) {
            value = Apply(node, value);
            results_[node.index] = value;
            continue;
        }
        int32_t stored = value;
        if (node.kind == NodeKind::CAST_BFLOAT16 ||
            (node.kind == NodeKind::STORE_HALF && !IsOfHalf(terms_[value].kind))) {
            LoopNode rounds = node;
            rounds.kind = node.kind == NodeKind::STORE_HALF ? NodeKind::ROUND_HALF : NodeKind::ROUND_BFLOAT16;
            stored = Apply(rounds, value);
            results_[node.index] = stored;
            value = node.kind == NodeKind::STORE_HALF ? value : stored;  // the value stays unrounded
        }
        known_[node.operand] = stored;
        if (node.needed != LoopNode::NOT_NEEDED) {
            kept_.push_back(stored);
        }
    }
}

// A term of that is known already, or a new one.
int32_t LoopTerms::Add(const Term& term)
{
    const auto same = [&term](const Term& other) {
        return other.kind == term.kind && memcmp(&other.scalar, &term.scalar, sizeof(float)) == 0 &&
               other.first == term.first && other.second == term.second && other.operand == term.operand;
    };
    const auto known = std::find_if(terms_.begin(), terms_.end(), same);
    if (known != terms_.end()) {
        return static_cast<int32_t>(known - terms_.begin());
    }
    terms_.push_back(term);
    return static_cast<int32_t>(terms_.size()) - 1;
}

// The value of an operand.
int32_t LoopTerms::Read(const LoopNode& node)
{
    int32_t& known = known_[node.operand];
    if (known == Term::NONE) {
        Term term;
        term.kind = LoadNode(TypeOf(AccessOf(node.kind)));
        term.operand = node.operand;
        term.source = term.kind == NodeKind::LOAD_FLOAT ? Term::MANY : static_cast<int32_t>(terms_.size());
        known = Add(term);
    }
    return known;
}

// The result of a node for a value.
int32_t LoopTerms::Apply(const LoopNode& node, int32_t value)
{
    Term term;
    term.kind = node.kind;
    term.scalar = node.scalar;
    term.first = value;
    if (node.kind == NodeKind::AXPY) {
        term.second = Read(node);
    } else if (node.kind >= NodeKind::BINARY) {
        term.kind = BinaryNode(OpcodeOf(node.kind), Other::STREAM, IsSwapped(node.kind));
        if (OtherOf(node.kind) == Other::SELF) {
            term.second = value;
        } else if (OtherOf(node.kind) == Other::BLOCK) {
            Term block;
            block.operand = node.operand;
            term.second = Add(block);
        } else {
            term.second = Read(node);
        }
    }
    term.source = terms_[value].source;
    const int32_t other = term.second == Term::NONE ? Term::NONE : terms_[term.second].source;
    if (term.source == Term::NONE) {
        term.source = other;
    } else if (other != Term::NONE && other != term.source) {
        term.source = Term::MANY;
    }
    return Add(term);
}

}  // namespace host
}  // namespace AscendC
