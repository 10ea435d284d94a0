#include "loop_terms.h"

#include <algorithm>
#include <cstring>

#include "chains.h"
#include "steps.h"

namespace AscendC {
namespace host {

namespace {

bool IsOfHalf(Link link)
{
    return link == Link::ROUND_HALF || link == Link::LOAD_HALF;
}

}  // namespace

LoopTerms::LoopTerms(const LoopForm& form)
    : results_(form.links.size(), Term::NONE), known_(LoopLink::NO_OPERAND, Term::NONE)
{
    int32_t value = Term::NONE;
    for (const LoopLink& link : form.links) {
        if (link.link == Link::END) {
            continue;
        }
        if (Loads(link.link)) {
            value = Read(link);
            continue;
        }
        if (Collects(link.link)) {
            kept_.push_back(value);
            continue;
        }
        if (!Stores(link.link)) {
            value = Apply(link, value);
            results_[link.index] = value;
            continue;
        }
        int32_t stored = value;
        if (link.link == Link::CAST_BFLOAT16 || (link.link == Link::STORE_HALF && !IsOfHalf(terms_[value].link))) {
            LoopLink rounds = link;
            rounds.link = link.link == Link::STORE_HALF ? Link::ROUND_HALF : Link::ROUND_BFLOAT16;
            stored = Apply(rounds, value);
            results_[link.index] = stored;
            value = link.link == Link::STORE_HALF ? value : stored;  // which goes on as it was
        }
        known_[link.operand] = stored;
        if (link.needed != LoopLink::NOT_NEEDED) {
            kept_.push_back(stored);
        }
    }
}

// A term of that is known already, or a new one.
int32_t LoopTerms::Add(const Term& term)
{
    const auto same = [&term](const Term& other) {
        return other.link == term.link && memcmp(&other.scalar, &term.scalar, sizeof(float)) == 0 &&
               other.first == term.first && other.second == term.second && other.operand == term.operand;
    };
    const auto known = std::find_if(terms_.begin(), terms_.end(), same);
    if (known != terms_.end()) {
        return static_cast<int32_t>(known - terms_.begin());
    }
    terms_.push_back(term);
    return static_cast<int32_t>(terms_.size()) - 1;
}

// What an operand holds.
int32_t LoopTerms::Read(const LoopLink& link)
{
    int32_t& known = known_[link.operand];
    if (known == Term::NONE) {
        Term term;
        term.link = LoadLink(TypeOf(AccessOf(link.link)));
        term.operand = link.operand;
        term.source = term.link == Link::LOAD_FLOAT ? Term::MANY : static_cast<int32_t>(terms_.size());
        known = Add(term);
    }
    return known;
}

// What a link makes of a value.
int32_t LoopTerms::Apply(const LoopLink& link, int32_t value)
{
    Term term;
    term.link = link.link;
    term.scalar = link.scalar;
    term.first = value;
    if (link.link == Link::AXPY) {
        term.second = Read(link);
    } else if (link.link >= Link::BINARY) {
        term.link = BinaryLink(OpcodeOf(link.link), Other::STREAM, IsSwapped(link.link));
        if (OtherOf(link.link) == Other::SELF) {
            term.second = value;
        } else if (OtherOf(link.link) == Other::BLOCK) {
            Term block;
            block.operand = link.operand;
            term.second = Add(block);
        } else {
            term.second = Read(link);
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
