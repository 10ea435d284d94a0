/*!
 * Holds what a kernel takes and gives, and the rules for it: dtypes, shapes and the values of attributes. It is the one
 * place that interprets a definition: MindSpore's and CANN's inference call it, and Python through ms_ascend_ops._C.
 */
#ifndef MS_ASCEND_OPS_BINDING_SIGNATURE_H
#define MS_ASCEND_OPS_BINDING_SIGNATURE_H

#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "binding/shape_rule.h"

namespace ms_ascend_ops::binding {

// An operator has no kernel for a dtype. (A wrong shape or value is std::invalid_argument.)
class TypeError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

enum class AttributeKind : int32_t { INT, FLOAT, BOOL, STRING };

// A bool is 0 or 1 and a string the index of its choice, both in `integer`.
struct AttributeValue {
    int64_t integer = 0;
    double real = 0.0;
};

struct AttributeDef {
    std::string name;
    AttributeKind kind;
    AttributeValue defaultValue;
    std::vector<std::string> choices;
    bool hasMinimum = false;
    double exclusiveMinimum = 0.0;
    std::vector<int64_t> axes = {};  // of a string or bool that names an axis: where each value puts it
    std::string formerly = {};       // the name in files and calls of earlier releases
    std::map<std::string, std::string> renamed = {};  // choices as earlier releases called them

    bool IsCalled(const std::string& given) const { return given == name || (!formerly.empty() && given == formerly); }
};

struct TensorDef {
    std::string name;
    std::string dtype;  // a dtype name or a dtype variable
    ShapeRule rule;
    bool optional = false;  // an input that may be absent
};

struct SignatureDef {
    std::string name;  // rms_norm_grad: in messages and for the C interface
    std::vector<TensorDef> inputs;
    std::vector<TensorDef> outputs;
    std::vector<AttributeDef> attributes;
    std::vector<std::map<std::string, std::string>> types;  // rows of the definition: dtype variable -> dtype name
    std::map<std::string, std::string> reasons;
    std::set<std::string> positive;                // symbols that may not be 0
    std::map<std::string, std::string> multiples;  // symbol: the int attribute or symbol it is a multiple of
};

class Signature {
public:
    using Values = std::vector<AttributeValue>;  // in the order of the definition

    explicit Signature(SignatureDef def);

    const SignatureDef& Def() const { return def_; }

    // Every function takes all inputs: of one that is absent the shape is {ABSENT}, and the dtype "".
    // The row of `types` that the dtypes of the inputs select. Throws TypeError.
    size_t MatchTypes(const std::vector<std::string>& dtypes) const;
    std::vector<std::string> InferTypes(const std::vector<std::string>& dtypes) const;
    // Returns the shapes of the outputs. It throws std::invalid_argument, as do the other functions for shapes and
    // values.
    std::vector<Shape> InferShapes(const std::vector<Shape>& shapes, const Values& values) const;
    std::vector<Shape> InferShapes(const std::vector<Shape>& shapes, const ShapeMatcher::Attributes& attributes) const;
    // Returns the shapes of all inputs, from those of the first ones, which must say enough; optional ones are absent.
    std::vector<Shape> CompleteShapes(std::vector<Shape> shapes, const ShapeMatcher::Attributes& attributes) const;
    // Returns true if InferShapes uses the value of an attribute.
    bool ShapesDependOn(size_t attribute) const { return shapeAttributes_[attribute]; }
    void CheckAttribute(const AttributeDef& attribute, const AttributeValue& value) const;
    // A string's value is its index in the choices.
    AttributeValue ParseChoice(const AttributeDef& attribute, const std::string& text) const;

private:
    ShapeMatcher MatcherOf(const ShapeMatcher::Attributes& attributes) const;

    SignatureDef def_;
    std::vector<bool> shapeAttributes_;
};

// Reads a number with a decimal point, whatever the locale. It throws std::invalid_argument.
double ParseReal(const std::string& text);

// Parses a definition in the form that generated code holds: kernels/codegen/host.py says how. Constants of C++ would
// take the compiler longer than all else that it compiles for a small kernel.
SignatureDef ParseSignature(const char* text);

// Returns the entry for a dtype, a name or a variable, in a row of `types`.
const std::string& Resolve(const std::map<std::string, std::string>& row, const std::string& dtype);

}  // namespace ms_ascend_ops::binding

#endif  // MS_ASCEND_OPS_BINDING_SIGNATURE_H
