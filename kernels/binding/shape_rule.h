/*!
 * Interprets the shape rules of the operator definitions ("*b 2*d@axis"). They are described and parsed by
 * ms_ascend_ops/definitions/shapes.py, and arrive here as tokens.
 */
#ifndef MS_ASCEND_OPS_BINDING_SHAPE_RULE_H
#define MS_ASCEND_OPS_BINDING_SHAPE_RULE_H

#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace ms_ascend_ops::binding {

using Shape = std::vector<int64_t>;

constexpr int64_t UNKNOWN_DIM = -1;
constexpr int64_t UNKNOWN_RANK = -2;  // the only entry of the shape of a tensor of unknown rank
constexpr int64_t ABSENT = -3;        // the only entry of the shape of an optional input that is not there

struct Token {
    std::string symbol;  // empty for a literal, whose size is `factor`
    int64_t factor = 1;
    bool star = false;
    bool broadcasts = false;  // ~b: a star whose dims broadcast to those of *b; ?d: a dim that broadcasts to d
    std::string attribute = {};
    bool ones = false;                    // with star: dims of size 1
    std::vector<std::string> sizes = {};  // attributes whose sum is the dim's size
    // A window along `symbol` has these: the symbol of its length; attributes: dilation, before, after, stride.
    std::vector<std::string> window = {};
};

struct ShapeRule {
    ShapeRule(std::vector<Token> list);  // NOLINT: a rule is its tokens
    ShapeRule(std::initializer_list<Token> list) : ShapeRule(std::vector<Token>(list)) {}

    std::vector<Token> tokens;
    int32_t anchor = -1;  // index of the token that stands at an attribute, or -1

    // Returns true if the lengths of all tokens follow from the shape alone.
    bool IsPlain() const;
    // Returns true if the anchored token is one of the single dims at the end, and stands where its attribute says.
    bool Moves() const;
    // Returns the tokens as the dims stand where it moves to `axis`: in a rule with stars counted from the end.
    std::vector<Token> InOrder(int64_t axis) const;
};

std::string ToString(const Shape& shape);

// Binds the symbols of one signature to the shapes of its inputs. Throws std::invalid_argument when a shape breaks a
// rule.
class ShapeMatcher {
public:
    using Attributes = std::map<std::string, int64_t>;
    using Reasons = std::map<std::string, std::string>;
    using Multiples = std::map<std::string, std::string>;

    ShapeMatcher(std::string op, const Reasons& reasons, const std::set<std::string>& positive,
                 const Multiples& multiples, const Attributes& attributes)
        : op_(std::move(op)), reasons_(reasons), positive_(positive), multiples_(multiples), attributes_(attributes)
    {}

    void Match(const std::string& tensor, const ShapeRule& rule, const Shape& shape);
    // This comes after all of them, as one symbol may have to be a multiple of another.
    void MatchMultiples() const;
    Shape ShapeOf(const ShapeRule& rule) const;

private:
    struct Binding {
        Shape dims;
        std::string place;  // where the symbol was seen first, for messages
        int64_t factor = 1;
    };
    struct MatchedTensor {
        const std::string& tensor;
        const Shape& shape;
    };
    using TokenIter = std::vector<Token>::const_iterator;

    [[noreturn]] void Fail(const std::string& text) const;
    void MatchSide(const MatchedTensor& matched, TokenIter first, TokenIter last, int64_t begin, int64_t end);
    void MatchDim(const MatchedTensor& matched, const Token& token, int64_t position, int64_t index);
    int64_t SizeOf(const Token& token) const;
    int64_t Times(int64_t size, int64_t factor) const;
    int64_t Windows(const Token& token) const;
    void MatchStar(const MatchedTensor& matched, const Token& token, int64_t begin, int64_t end);

    std::string op_;
    const Reasons& reasons_;
    const std::set<std::string>& positive_;
    const Multiples& multiples_;
    const Attributes& attributes_;
    std::map<std::string, Binding> bindings_;
};

}  // namespace ms_ascend_ops::binding

#endif  // MS_ASCEND_OPS_BINDING_SHAPE_RULE_H
