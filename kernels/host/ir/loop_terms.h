/*!
 * The values that a loop over elements (loop_form.h) calculates, as terms: the result of a node, and its operands.
 */
#ifndef ASCENDC_HOST_IR_LOOP_TERMS_H
#define ASCENDC_HOST_IR_LOOP_TERMS_H

#include <cstdint>
#include <vector>

#include "ir/loop_form.h"
#include "ir/nodes.h"

namespace AscendC {
namespace host {

struct Term {
    static constexpr int32_t NONE = -1;
    static constexpr int32_t MANY = -2;

    NodeKind kind =
        NodeKind::END;  // LOAD_* of an operand; BINARY, of elements whatever its operand is; END: a DataBlock
    float scalar = 0.0f;
    int32_t first = NONE;  // the terms that it is of
    int32_t second = NONE;
    int32_t operand = NONE;  // of a LOAD, or a DataBlock
    // The term of the only element that all of this depends on, of 16 bits; NONE: on constants alone; MANY: on other
    // elements, too. DataBlocks count as constants.
    int32_t source = NONE;
};

// A term is behind those that it is of, and nothing is there twice.
class LoopTerms {
public:
    explicit LoopTerms(const LoopForm& form);

    const std::vector<Term>& List() const { return terms_; }
    // The result of a node; NONE: it is no calculation.
    int32_t ResultOf(const LoopNode& node) const { return results_[node.index]; }
    // Results that are stored and read later, or that are collected.
    const std::vector<int32_t>& Kept() const { return kept_; }

private:
    int32_t Add(const Term& term);
    int32_t Read(const LoopNode& node);
    int32_t Apply(const LoopNode& node, int32_t value);

    std::vector<Term> terms_;
    std::vector<int32_t> results_;  // by node
    std::vector<int32_t> kept_;
    std::vector<int32_t> known_;  // by operand: the term that is there
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_IR_LOOP_TERMS_H
