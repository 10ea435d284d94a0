/*!
 * One kernel as the generated code registers it, and what every kernel needs around its launch: matching dtypes and
 * shapes against the definition, reading attributes, and calling the instantiation for the dtypes at hand.
 */
#ifndef MS_ASCEND_OPS_BINDING_OP_H
#define MS_ASCEND_OPS_BINDING_OP_H

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "binding/shape_rule.h"
#include "primitives/launch_config.h"

namespace ms_ascend_ops::binding {

// A dtype an operator has no kernel for. (A wrong shape or value is std::invalid_argument.)
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
    std::vector<int64_t> axes = {};  // of a string that names an axis: where each choice puts it
};

struct TensorDef {
    std::string name;
    std::string dtype;  // a dtype name or a dtype variable
    std::string rule;
};

// One tiling value, for tools and tests.
struct TilingField {
    const char* name;
    bool isReal;
    int64_t integer;
    double real;
};

template <typename T>
TilingField MakeTilingField(const char* name, T value)
{
    return {name, std::is_floating_point_v<T>, static_cast<int64_t>(value), static_cast<double>(value)};
}

struct OpDef {
    std::string name;   // rms_norm_grad: in messages and for the C interface
    std::string entry;  // RmsNormGrad: the symbol MindSpore looks up
    std::vector<TensorDef> inputs;
    std::vector<TensorDef> outputs;
    std::vector<AttributeDef> attributes;
    std::vector<std::map<std::string, std::string>> types;  // rows of the definition: dtype variable -> dtype name
    std::map<std::string, std::string> reasons;
    std::set<std::string> positive;                // symbols that may not be 0
    std::map<std::string, std::string> multiples;  // symbol: the int attribute it is a multiple of
    std::set<std::string> writes;                  // inputs that the kernel changes in place
    std::string json;                              // the signature, for ms_ascend_ops._C

    // Runs the instantiation of row `types[row]`. `params` are inputs, then outputs, which lie in `memory`.
    void (*launch)(size_t row, void* const* params, const TensorDesc* inputs, const AttributeValue* attributes,
                   const LaunchMemory& memory);
    LaunchConfig (*tiling)(const TensorDesc* inputs, const AttributeValue* attributes, const Platform& platform,
                           std::vector<TilingField>& fields);
};

class Op {
public:
    explicit Op(OpDef def);

    const OpDef& Def() const { return def_; }

    // The row of `types` that the dtypes of the inputs select. Throws TypeError.
    size_t MatchTypes(const std::vector<std::string>& dtypes) const;
    std::vector<std::string> InferTypes(const std::vector<std::string>& dtypes) const;
    std::vector<Shape> InferShapes(const std::vector<Shape>& shapes, const std::vector<AttributeValue>& values) const;
    // Whether the value of an attribute has a part in InferShapes.
    bool ShapesDependOn(size_t attribute) const { return shapeAttributes_[attribute]; }
    // Throws std::invalid_argument when a value is not allowed.
    void CheckAttribute(const AttributeDef& attribute, const AttributeValue& value) const;
    // Inputs come first in `descs`. Nothing is launched when every output is empty.
    void Launch(void* const* params, const TensorDesc* descs, const std::vector<AttributeValue>& values) const;

private:
    friend class PlannedLaunch;

    // What a launch needs to know of the dtypes and shapes of its tensors.
    struct Form {
        size_t row;  // of `types`
        uint64_t bytes[MAX_TENSORS];
        uint64_t outputBytes;  // of all outputs
    };
    Form FormOf(const TensorDesc* descs) const;  // throws TypeError
    void Launch(const Form& form, void* const* params, const TensorDesc* descs, const AttributeValue* values) const;

    OpDef def_;
    std::vector<ShapeRule> inputRules_;
    std::vector<ShapeRule> outputRules_;
    std::vector<std::vector<DataType>> inputTypes_;  // per row
    std::vector<bool> shapeAttributes_;
};

// A kernel for tensors of certain dtypes and shapes: what can be looked up before a launch, for many of them.
class PlannedLaunch {
public:
    // Inputs come first in `descs`. Throws TypeError.
    PlannedLaunch(const Op& op, std::vector<TensorDesc> descs, std::vector<AttributeValue> values);

    const OpDef& Def() const { return op_.Def(); }
    void Run(void* const* params) const { op_.Launch(form_, params, descs_.data(), values_.data()); }

private:
    const Op& op_;
    const std::vector<TensorDesc> descs_;
    const std::vector<AttributeValue> values_;
    const Op::Form form_;
};

// Index in `choices`. Throws std::invalid_argument.
AttributeValue ParseChoice(const std::string& op, const AttributeDef& attribute, const std::string& text);

DataType ParseDataType(std::string_view name);  // throws TypeError
const char* NameOf(DataType dtype);

// Registration happens while the library is loaded, and nowhere else.
const Op& Register(OpDef def);
const std::map<std::string, Op>& Registry();
const Op& FindOp(const std::string& name);  // throws std::invalid_argument

}  // namespace ms_ascend_ops::binding

#endif  // MS_ASCEND_OPS_BINDING_OP_H
