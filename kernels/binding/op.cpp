#include "binding/op.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>
#include <utility>

#include "host/observe.h"

namespace ms_ascend_ops::binding {
namespace {

constexpr std::array<std::pair<DataType, const char*>, 5> DTYPE_NAMES = {{{DataType::FLOAT16, "float16"},
                                                                          {DataType::BFLOAT16, "bfloat16"},
                                                                          {DataType::FLOAT32, "float32"},
                                                                          {DataType::INT32, "int32"},
                                                                          {DataType::INT64, "int64"}}};

const std::string& Resolve(const std::map<std::string, std::string>& row, const std::string& dtype)
{
    const auto found = row.find(dtype);
    return found == row.end() ? dtype : found->second;
}

// "a", "a or b", "a, b or c"
std::string OneOf(const std::vector<std::string>& names)
{
    std::string text;
    for (size_t i = 0; i < names.size(); ++i) {
        text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
    }
    return text;
}

std::vector<ShapeRule> ParseRules(const std::vector<TensorDef>& tensors)
{
    std::vector<ShapeRule> rules;
    for (const TensorDef& tensor : tensors) {
        rules.push_back(ShapeRule::Parse(tensor.rule));
    }
    return rules;
}

std::map<std::string, Op>& MutableRegistry()
{
    static std::map<std::string, Op> registry;
    return registry;
}

#if defined(ASCENDC_HOST_OBSERVED)
AscendC::host::Dtype DtypeOf(DataType dtype)
{
    using AscendC::host::Dtype;
    constexpr Dtype dtypes[] = {Dtype::HALF, Dtype::BFLOAT16, Dtype::FLOAT, Dtype::INT32, Dtype::INT64};
    return dtypes[static_cast<size_t>(dtype)];
}

void Describe(const OpDef& def, void* const* params, const TensorDesc* descs)
{
    std::vector<AscendC::host::Argument> arguments;
    const auto add = [&](const TensorDef& tensor, size_t i, bool output) {
        arguments.push_back({tensor.name.c_str(), static_cast<const char*>(params[i]),
                             static_cast<uint64_t>(descs[i].Size()) * SizeOf(descs[i].dtype), DtypeOf(descs[i].dtype),
                             output});
    };
    for (size_t i = 0; i < def.inputs.size(); ++i) {
        add(def.inputs[i], i, false);
    }
    for (size_t i = 0; i < def.outputs.size(); ++i) {
        add(def.outputs[i], def.inputs.size() + i, true);
    }
    for (size_t i = 0; i < def.inputs.size(); ++i) {
        if (def.writes.count(def.inputs[i].name) > 0) {  // changed in place: an output that lies on an input
            add(def.inputs[i], i, true);
        }
    }
    AscendC::host::DescribeLaunch(def.name.c_str(), std::move(arguments));
}
#else
void Describe(const OpDef&, void* const*, const TensorDesc*) {}
#endif

}  // namespace

Op::Op(OpDef def) : def_(std::move(def)), inputRules_(ParseRules(def_.inputs)), outputRules_(ParseRules(def_.outputs))
{
    for (const auto& row : def_.types) {
        inputTypes_.emplace_back();
        for (const TensorDef& input : def_.inputs) {
            inputTypes_.back().push_back(ParseDataType(Resolve(row, input.dtype)));
        }
    }
    std::set<std::string> named;
    for (const auto* rules : {&inputRules_, &outputRules_}) {
        for (const ShapeRule& rule : *rules) {
            for (const Token& token : rule.tokens) {
                named.insert(token.attribute);
                named.insert(token.sizes.begin(), token.sizes.end());
            }
        }
    }
    for (const auto& [symbol, attribute] : def_.multiples) {
        named.insert(attribute);
    }
    for (const AttributeDef& attribute : def_.attributes) {
        shapeAttributes_.push_back(named.count(attribute.name) > 0);
    }
}

// The same messages as infer_types() of ms_ascend_ops/shapes.py.
size_t Op::MatchTypes(const std::vector<std::string>& dtypes) const
{
    const auto possible = [this](const std::vector<size_t>& rows, const std::string& dtype) {
        std::vector<std::string> names;
        for (const size_t row : rows) {
            const std::string& name = Resolve(def_.types[row], dtype);
            if (std::find(names.begin(), names.end(), name) == names.end()) {
                names.push_back(name);
            }
        }
        return names;
    };
    std::vector<size_t> all(def_.types.size());
    for (size_t row = 0; row < all.size(); ++row) {
        all[row] = row;
    }
    std::vector<size_t> rows = all;
    for (size_t i = 0; i < def_.inputs.size(); ++i) {
        const TensorDef& input = def_.inputs[i];
        std::vector<size_t> allowed;
        std::copy_if(rows.begin(), rows.end(), std::back_inserter(allowed),
                     [&](size_t row) { return Resolve(def_.types[row], input.dtype) == dtypes[i]; });
        if (!allowed.empty()) {
            rows = std::move(allowed);
            continue;
        }
        std::vector<std::string> names = possible(all, input.dtype);
        std::string condition;
        if (std::find(names.begin(), names.end(), dtypes[i]) != names.end()) {
            names = possible(rows, input.dtype);
            std::vector<std::string> seen;
            for (size_t j = 0; j < i; ++j) {
                const TensorDef& other = def_.inputs[j];
                const bool isVariable = def_.types[0].count(other.dtype) > 0;
                if (isVariable && std::find(seen.begin(), seen.end(), other.dtype) == seen.end()) {
                    condition += (seen.empty() ? " when " : " and ") + other.name + ".dtype is " + dtypes[j];
                    seen.push_back(other.dtype);
                }
            }
        }
        throw TypeError(def_.name + ": " + input.name + ".dtype must be " + OneOf(names) + condition + ", got " +
                        dtypes[i]);
    }
    return rows[0];
}

std::vector<std::string> Op::InferTypes(const std::vector<std::string>& dtypes) const
{
    const auto& row = def_.types[MatchTypes(dtypes)];
    std::vector<std::string> outputs;
    for (const TensorDef& output : def_.outputs) {
        outputs.push_back(Resolve(row, output.dtype));
    }
    return outputs;
}

std::vector<Shape> Op::InferShapes(const std::vector<Shape>& shapes, const std::vector<AttributeValue>& values) const
{
    ShapeMatcher::Attributes integers;
    for (size_t i = 0; i < values.size(); ++i) {
        const AttributeDef& attribute = def_.attributes[i];
        integers[attribute.name] = attribute.axes.empty() ? values[i].integer : attribute.axes[values[i].integer];
    }
    ShapeMatcher matcher(def_.name, def_.reasons, def_.positive, def_.multiples, integers);
    for (const bool plain : {true, false}) {  // plain rules tell the lengths that the others need
        for (size_t i = 0; i < inputRules_.size(); ++i) {
            if (inputRules_[i].IsPlain() == plain) {
                matcher.Match(def_.inputs[i].name, inputRules_[i], shapes[i]);
            }
        }
    }
    std::vector<Shape> outputs;
    for (const ShapeRule& rule : outputRules_) {
        outputs.push_back(matcher.ShapeOf(rule));
    }
    return outputs;
}

void Op::CheckAttribute(const AttributeDef& attribute, const AttributeValue& value) const
{
    const std::string subject = def_.name + ": " + attribute.name + " must be ";
    if (attribute.kind == AttributeKind::INT && attribute.hasMinimum &&
        !(static_cast<double>(value.integer) > attribute.exclusiveMinimum)) {
        std::ostringstream text;
        text << subject << "> " << attribute.exclusiveMinimum << ", got " << value.integer;
        throw std::invalid_argument(text.str());
    }
    if (attribute.kind == AttributeKind::FLOAT) {
        const auto stored = static_cast<float>(value.real);
        if (!std::isfinite(stored)) {
            throw std::invalid_argument(subject + "finite in float32, got " + std::to_string(value.real));
        }
        if (attribute.hasMinimum && !(stored > attribute.exclusiveMinimum)) {
            throw std::invalid_argument(subject + "> " + std::to_string(attribute.exclusiveMinimum) +
                                        " in float32, got " + std::to_string(value.real));
        }
    }
}

Op::Form Op::FormOf(const TensorDesc* descs) const
{
    const auto found =
        std::find_if(inputTypes_.begin(), inputTypes_.end(), [descs](const std::vector<DataType>& types) {
            return std::equal(types.begin(), types.end(), descs,
                              [](DataType dtype, const TensorDesc& desc) { return dtype == desc.dtype; });
        });
    const size_t inputs = def_.inputs.size();
    if (found == inputTypes_.end()) {
        std::vector<std::string> dtypes;
        for (size_t i = 0; i < inputs; ++i) {
            dtypes.emplace_back(NameOf(descs[i].dtype));
        }
        MatchTypes(dtypes);  // throws, and says why
    }
    Form form{};
    form.row = static_cast<size_t>(found - inputTypes_.begin());
    for (size_t i = 0; i < inputs + def_.outputs.size(); ++i) {
        form.bytes[i] = static_cast<uint64_t>(descs[i].Size()) * SizeOf(descs[i].dtype);
        form.outputBytes += i < inputs ? 0 : form.bytes[i];
    }
    return form;
}

void Op::Launch(const Form& form, void* const* params, const TensorDesc* descs, const AttributeValue* values) const
{
    if (form.outputBytes == 0) {
        return;
    }
    LaunchMemory memory;
    memory.tensorCount = static_cast<int32_t>(def_.inputs.size() + def_.outputs.size());
    memory.outputBytes = form.outputBytes;
    for (int32_t i = 0; i < memory.tensorCount; ++i) {
        const char* const begin = static_cast<const char*>(params[i]);
        memory.tensors[i] = {begin, begin + form.bytes[i]};
    }
    Describe(def_, params, descs);
    def_.launch(form.row, params, descs, values, memory);
}

void Op::Launch(void* const* params, const TensorDesc* descs, const std::vector<AttributeValue>& values) const
{
    Launch(FormOf(descs), params, descs, values.data());
}

PlannedLaunch::PlannedLaunch(const Op& op, std::vector<TensorDesc> descs, std::vector<AttributeValue> values)
    : op_(op), descs_(std::move(descs)), values_(std::move(values)), form_(op.FormOf(descs_.data()))
{}

AttributeValue ParseChoice(const std::string& op, const AttributeDef& attribute, const std::string& text)
{
    const auto found = std::find(attribute.choices.begin(), attribute.choices.end(), text);
    if (found == attribute.choices.end()) {
        std::vector<std::string> quoted;
        for (const std::string& choice : attribute.choices) {
            quoted.push_back("'" + choice + "'");
        }
        throw std::invalid_argument(op + ": " + attribute.name + " must be " + OneOf(quoted) + ", got '" + text + "'");
    }
    AttributeValue value;
    value.integer = found - attribute.choices.begin();
    return value;
}

DataType ParseDataType(std::string_view name)
{
    for (const auto& [dtype, text] : DTYPE_NAMES) {
        if (name == text) {
            return dtype;
        }
    }
    throw TypeError("no operator takes the dtype " + std::string(name));
}

const char* NameOf(DataType dtype)
{
    for (const auto& [known, text] : DTYPE_NAMES) {
        if (known == dtype) {
            return text;
        }
    }
    return "unknown";
}

const Op& Register(OpDef def)
{
    const std::string name = def.name;
    return MutableRegistry().emplace(name, Op(std::move(def))).first->second;
}

const std::map<std::string, Op>& Registry()
{
    return MutableRegistry();
}

const Op& FindOp(const std::string& name)
{
    const auto found = Registry().find(name);
    if (found == Registry().end()) {
        throw std::invalid_argument("the library has no operator '" + name + "'");
    }
    return found->second;
}

}  // namespace ms_ascend_ops::binding
