#include "binding/shape_rule.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "interface/launch_config.h"

namespace ms_ascend_ops::binding {
namespace {

std::string Dims(int64_t count)
{
    return std::to_string(count) + (count == 1 ? " dim" : " dims");
}

bool SameWhereKnown(const Shape& a, const Shape& b)
{
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](int64_t x, int64_t y) { return x == y || x == UNKNOWN_DIM || y == UNKNOWN_DIM; });
}

// Aligned at the end, each dim the same or 1.
bool Broadcasts(const Shape& dims, const Shape& to)
{
    return dims.size() <= to.size() && std::equal(dims.rbegin(), dims.rend(), to.rbegin(), [](int64_t a, int64_t b) {
               return a == 1 || a == b || a == UNKNOWN_DIM || b == UNKNOWN_DIM;
           });
}

}  // namespace

ShapeRule::ShapeRule(std::vector<Token> list) : tokens(std::move(list))
{
    for (size_t i = 0; i < tokens.size(); ++i) {
        anchor = tokens[i].attribute.empty() ? anchor : static_cast<int32_t>(i);
    }
}

bool ShapeRule::IsPlain() const
{
    int32_t runs = 0;
    for (size_t i = 0; i < tokens.size(); ++i) {
        runs = static_cast<int32_t>(i) == anchor ? 0 : runs + (tokens[i].star ? 1 : 0);
        if (runs > 1) {
            return false;
        }
    }
    return true;
}

bool ShapeRule::Moves() const
{
    return anchor >= 0 &&
           std::none_of(tokens.begin() + anchor, tokens.end(), [](const Token& token) { return token.star; });
}

std::vector<Token> ShapeRule::InOrder(int64_t axis) const
{
    std::vector<Token> order = tokens;
    order.erase(order.begin() + anchor);
    const auto size = static_cast<int64_t>(tokens.size());
    order.insert(order.begin() + (axis < 0 ? axis + size : axis), tokens[anchor]);
    return order;
}

// Prints as Python prints a tuple.
std::string ToString(const Shape& shape)
{
    std::string text = "(";
    for (size_t i = 0; i < shape.size(); ++i) {
        text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
    }
    return text + (shape.size() == 1 ? ",)" : ")");
}

void ShapeMatcher::Fail(const std::string& text) const
{
    throw std::invalid_argument(op_ + ": " + text);
}

void ShapeMatcher::Match(const std::string& tensor, const ShapeRule& rule, const Shape& shape)
{
    if (shape.size() == 1 && (shape[0] == UNKNOWN_RANK || shape[0] == ABSENT)) {
        return;
    }
    if (std::any_of(shape.begin(), shape.end(), [](int64_t size) { return size < UNKNOWN_DIM; })) {
        Fail(tensor + " must have no negative dim, got shape " + ToString(shape));
    }
    const auto isStar = [](const Token& token) { return token.star; };
    const auto begin = rule.tokens.begin();
    const auto end = rule.tokens.end();
    const auto rank = static_cast<int64_t>(shape.size());
    const int64_t stars = std::count_if(begin, end, isStar);
    const int64_t fixed = static_cast<int64_t>(rule.tokens.size()) - stars;
    if (stars == 0 && rank != fixed) {
        Fail(tensor + " must have " + Dims(fixed) + ", got shape " + ToString(shape));
    }
    if (rank < fixed) {
        Fail(tensor + " must have at least " + Dims(fixed) + ", got shape " + ToString(shape));
    }
    if (rank > MAX_RANK) {
        Fail(tensor + " must have at most " + Dims(MAX_RANK) + ", got shape " + ToString(shape));
    }
    const MatchedTensor matched{tensor, shape};
    if (rule.anchor < 0) {
        MatchSide(matched, begin, end, 0, rank);
        return;
    }
    const auto anchor = begin + rule.anchor;
    const int64_t starsBefore = std::count_if(begin, anchor, isStar);
    const int64_t starsAfter = stars - starsBefore;
    int64_t first = rule.anchor - starsBefore;
    int64_t last = rank - 1 - (end - anchor - 1 - starsAfter);
    if (rule.Moves()) {  // among the single dims at the end
        first = stars == 0
                    ? 0
                    : rank - (std::find_if(rule.tokens.rbegin(), rule.tokens.rend(), isStar) - rule.tokens.rbegin());
        last = rank - 1;
    } else if (starsBefore == 0) {
        last = first;
    }
    const int64_t axis = attributes_.at(anchor->attribute);
    const int64_t position = axis < 0 ? axis + rank : axis;
    if (position < first || position > last) {
        const std::string allowed = last - first == rank - 1
                                        ? "in [" + std::to_string(-rank) + ", " + std::to_string(rank - 1) + "]"
                                        : "from " + std::to_string(first) + " to " + std::to_string(last);
        Fail(anchor->attribute + " must be " + allowed + " for " + tensor + " of shape " + ToString(shape) + ", got " +
             std::to_string(axis));
    }
    if (rule.Moves()) {
        const std::vector<Token> order = rule.InOrder(position - rank);
        MatchSide(matched, order.begin(), order.end(), 0, rank);
        return;
    }
    MatchSide(matched, begin, anchor, 0, position);
    MatchDim(matched, *anchor, position, axis);
    MatchSide(matched, anchor + 1, end, position + 1, rank);
}

void ShapeMatcher::MatchSide(const MatchedTensor& matched, TokenIter first, TokenIter last, int64_t begin, int64_t end)
{
    const auto rank = static_cast<int64_t>(matched.shape.size());
    // One run of dims takes what the others leave: the one that is not known, or else the first.
    const auto lengthOf = [this](const Token& token) {
        return static_cast<int64_t>(bindings_.at(token.symbol).dims.size());
    };
    int64_t runs = 0;
    int64_t unknown = 0;
    auto elastic = last;
    for (auto token = first; token != last; ++token) {
        if (!token->star) {
            continue;
        }
        const bool isUnknown = bindings_.count(token->symbol) == 0;
        if (runs == 0 || (isUnknown && unknown == 0)) {
            elastic = token;
        }
        ++runs;
        unknown += isUnknown ? 1 : 0;
    }
    if (runs > 1 && unknown > 1) {
        return;  // a tensor of unknown rank would have told
    }
    int64_t left = end - begin - (last - first - runs);
    for (auto token = first; token != last; ++token) {
        left -= token->star && token != elastic ? lengthOf(*token) : 0;
    }
    if (left < 0) {
        Fail(matched.tensor + " must have at least " + Dims(rank - left) + ", got shape " + ToString(matched.shape));
    }
    int64_t position = begin;
    bool afterStar = false;
    for (auto token = first; token != last; ++token) {
        if (token->star) {
            const int64_t stop = position + (token == elastic ? left : lengthOf(*token));
            MatchStar(matched, *token, position, stop);
            position = stop;
            afterStar = true;
        } else {
            // Dims are named as a reader would: by their attribute, or from the end once a token of any length went
            // before.
            const int64_t place = afterStar && end == rank ? position - rank : position;
            MatchDim(matched, *token, position, token->attribute.empty() ? place : attributes_.at(token->attribute));
            ++position;
        }
    }
}

int64_t ShapeMatcher::SizeOf(const Token& token) const
{
    if (token.sizes.empty()) {
        return token.factor;
    }
    uint64_t sum = 0;
    for (const std::string& name : token.sizes) {
        sum += static_cast<uint64_t>(attributes_.at(name));
    }
    return static_cast<int64_t>(sum);
}

int64_t ShapeMatcher::Times(int64_t size, int64_t factor) const
{
    int64_t product = 0;
    if (__builtin_mul_overflow(size, factor, &product)) {
        Fail("a dim of " + std::to_string(factor) + " * " + std::to_string(size) + " does not fit in 64 bits");
    }
    return product;
}

int64_t ShapeMatcher::Windows(const Token& token) const
{
    const auto along = bindings_.find(token.symbol);
    const auto window = bindings_.find(token.window[0]);
    if (along == bindings_.end() || window == bindings_.end() || along->second.dims[0] == UNKNOWN_DIM ||
        window->second.dims[0] == UNKNOWN_DIM) {
        return UNKNOWN_DIM;
    }
    int64_t numbers[4];  // dilation, before, after, stride
    for (size_t i = 0; i < 4; ++i) {
        const std::string& name = token.window[i + 1];
        numbers[i] = attributes_.at(name);
        const bool positive = i == 0 || i == 3;
        if (numbers[i] > INT32_MAX || numbers[i] < (positive ? 1 : INT32_MIN)) {
            Fail(name + " must " + (positive ? "be at least 1 and " : "") + "fit in 32 bits, got " +
                 std::to_string(numbers[i]));
        }
    }
    int64_t padded = along->second.dims[0];
    if (__builtin_add_overflow(padded, numbers[1] + numbers[2], &padded)) {
        Fail("a dim with its padding does not fit in 64 bits");
    }
    const int64_t length = Times(window->second.dims[0] - 1, numbers[0]) + 1;
    if (length > padded) {
        Fail(window->second.place + " (" + std::to_string(window->second.dims[0]) + ", with " + token.window[1] + " " +
             std::to_string(length) + ") must be at most " + along->second.place + " with its padding (" +
             std::to_string(padded) + ")");
    }
    return WindowCount(padded, length, numbers[3]);
}

void ShapeMatcher::MatchDim(const MatchedTensor& matched, const Token& token, int64_t position, int64_t index)
{
    const int64_t size = matched.shape[position];
    const std::string place = matched.tensor + ".shape[" + std::to_string(index) + "]";
    const std::string got = ", got " + ToString(matched.shape);
    if (token.symbol.empty()) {
        const int64_t expected = SizeOf(token);
        if (size != expected && size != UNKNOWN_DIM) {
            std::string names;
            for (const std::string& name : token.sizes) {
                names += (names.empty() ? "" : " + ") + name;
            }
            const std::string number = std::to_string(expected);
            Fail(place + " must be " + (names.empty() ? number : names + " (" + number + ")") + got);
        }
        return;
    }
    if (token.broadcasts) {
        const auto to = bindings_.find(token.symbol);
        if (to != bindings_.end() && !Broadcasts({size}, to->second.dims)) {
            Fail(place + " must be 1 or " + to->second.place + " (" + std::to_string(to->second.dims[0]) + ")" + got);
        }
        return;
    }
    if (size == UNKNOWN_DIM) {
        bindings_.insert({token.symbol, {{UNKNOWN_DIM}, place, token.factor}});
        return;
    }
    if (size == 0 && positive_.count(token.symbol) > 0) {
        Fail(place + " must be at least " + std::to_string(token.factor) + got);
    }
    if (size % token.factor != 0) {
        const std::string rule = token.factor == 2 ? "even" : "a multiple of " + std::to_string(token.factor);
        const auto reason = reasons_.find(std::to_string(token.factor) + "*" + token.symbol);
        Fail(place + " must be " + rule + (reason == reasons_.end() ? "" : " (" + reason->second + ")") + got);
    }
    const int64_t value = size / token.factor;
    if (const auto multiple = multiples_.find(token.symbol); multiple != multiples_.end()) {
        const auto divisor = attributes_.find(multiple->second);
        if (divisor != attributes_.end() && (divisor->second <= 0 || value % divisor->second != 0)) {
            Fail(place + " must be a multiple of " + divisor->first + " (" + std::to_string(divisor->second) + ")" +
                 got);
        }
    }
    const auto known = bindings_.find(token.symbol);
    if (known == bindings_.end() || known->second.dims[0] == UNKNOWN_DIM) {
        bindings_[token.symbol] = {{value}, place, token.factor};
    } else if (known->second.dims[0] != value) {
        std::string relation = known->second.place;
        if (known->second.factor != token.factor) {
            relation = token.factor > 1 ? std::to_string(token.factor) + " * " + relation : relation;
            relation = known->second.factor > 1 ? relation + " / " + std::to_string(known->second.factor) : relation;
        }
        Fail(place + " must equal " + relation + " (" + std::to_string(Times(known->second.dims[0], token.factor)) +
             ")" + got);
    }
}

void ShapeMatcher::MatchStar(const MatchedTensor& matched, const Token& token, int64_t begin, int64_t end)
{
    const auto rank = static_cast<int64_t>(matched.shape.size());
    const Shape dims(matched.shape.begin() + begin, matched.shape.begin() + end);
    std::string place = matched.tensor + ".shape";
    if (begin != 0 || end != rank) {
        place +=
            "[" + (begin > 0 ? std::to_string(begin) : "") + ":" + (end < rank ? std::to_string(end - rank) : "") + "]";
    }
    if (token.ones) {
        const auto same = bindings_.find(token.symbol);
        const size_t count = same == bindings_.end() ? dims.size() : same->second.dims.size();
        const bool fits =
            std::all_of(dims.begin(), dims.end(), [](int64_t size) { return size == 1 || size == UNKNOWN_DIM; });
        if (dims.size() != count || !fits) {
            Fail(place + " must be " + ToString(Shape(count, 1)) + ", got " + ToString(matched.shape));
        }
        return;
    }
    if (positive_.count(token.symbol) > 0 && std::count(dims.begin(), dims.end(), 0) > 0) {
        Fail(place + " must have no dim of size 0, got " + ToString(matched.shape));
    }
    if (token.broadcasts) {
        const auto to = bindings_.find(token.symbol);
        if (to != bindings_.end() && !Broadcasts(dims, to->second.dims)) {
            Fail(place + " must broadcast to " + to->second.place + " " + ToString(to->second.dims) + ", got " +
                 ToString(matched.shape));
        }
        return;
    }
    const auto inserted = bindings_.insert({token.symbol, {dims, place, 1}});
    if (inserted.second) {
        return;
    }
    Binding& known = inserted.first->second;
    if (!SameWhereKnown(dims, known.dims)) {
        Fail(place + " must equal " + known.place + " " + ToString(known.dims) + ", got " + ToString(matched.shape));
    }
    for (size_t i = 0; i < dims.size(); ++i) {
        known.dims[i] = known.dims[i] == UNKNOWN_DIM ? dims[i] : known.dims[i];
    }
}

void ShapeMatcher::MatchMultiples() const
{
    for (const auto& [symbol, divisor] : multiples_) {
        const auto whole = bindings_.find(symbol);
        const auto part = bindings_.find(divisor);
        if (whole == bindings_.end() || part == bindings_.end()) {
            continue;
        }
        const int64_t a = whole->second.dims[0];
        const int64_t b = part->second.dims[0];
        if (a != UNKNOWN_DIM && b != UNKNOWN_DIM && (b == 0 ? a != 0 : a % b != 0)) {
            Fail(whole->second.place + " must be a multiple of " + part->second.place + " (" + std::to_string(b) +
                 "), got " + std::to_string(a));
        }
    }
}

Shape ShapeMatcher::ShapeOf(const ShapeRule& rule) const
{
    Shape shape;
    std::vector<Token> order = rule.tokens;
    if (rule.Moves()) {
        const Token& anchor = rule.tokens[rule.anchor];
        const int64_t axis = attributes_.at(anchor.attribute);
        const auto size = static_cast<int64_t>(order.size());
        // An input that is to be completed; the axes of outputs were checked with the definition.
        if (axis < -size || axis >= size) {
            Fail(anchor.attribute + " must be in [" + std::to_string(-size) + ", " + std::to_string(size - 1) +
                 "], got " + std::to_string(axis));
        }
        order = rule.InOrder(axis);
    }
    for (const Token& token : order) {
        if (token.symbol.empty()) {
            shape.push_back(SizeOf(token));
            continue;
        }
        if (!token.window.empty()) {
            shape.push_back(Windows(token));
            continue;
        }
        const auto known = bindings_.find(token.symbol);
        if (token.star) {
            if (known == bindings_.end()) {
                return {UNKNOWN_RANK};
            }
            const Shape& dims = known->second.dims;
            if (token.ones) {
                shape.insert(shape.end(), dims.size(), 1);
            } else {
                shape.insert(shape.end(), dims.begin(), dims.end());
            }
        } else if (known == bindings_.end() || known->second.dims[0] == UNKNOWN_DIM) {
            shape.push_back(UNKNOWN_DIM);
        } else {
            shape.push_back(Times(known->second.dims[0], token.factor));
        }
    }
    return shape;
}

}  // namespace ms_ascend_ops::binding
