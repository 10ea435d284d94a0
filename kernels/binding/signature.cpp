#include "binding/signature.h"

#include <algorithm>
#include <cmath>
#include <locale>
#include <sstream>
#include <utility>

namespace ms_ascend_ops::binding {
namespace {

// Returns "a", "a or b", or "a, b or c".
std::string OneOf(const std::vector<std::string>& names)
{
    std::string text;
    for (size_t i = 0; i < names.size(); ++i) {
        text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
    }
    return text;
}

std::vector<std::string> Split(const std::string& text, char separator)
{
    std::vector<std::string> parts{""};
    for (const char c : text) {
        if (c == separator) {
            parts.emplace_back();
        } else {
            parts.back() += c;
        }
    }
    return parts;
}

}  // namespace

double ParseReal(const std::string& text)
{
    std::istringstream stream(text);
    stream.imbue(std::locale::classic());  // the decimal point of the process may be a comma
    double value = 0.0;
    if (!(stream >> value) || stream.peek() != std::istringstream::traits_type::eof()) {
        throw std::invalid_argument("'" + text + "' is no number");
    }
    return value;
}

SignatureDef ParseSignature(const char* text)
{
    SignatureDef def;
    TensorDef* tensor = nullptr;
    for (const std::string& line : Split(text, '\n')) {
        const std::vector<std::string> fields = Split(line, '\t');
        const std::string& kind = fields[0];
        if (kind == "signature") {
            def.name = fields[1];
        } else if (kind == "input" || kind == "output") {
            std::vector<TensorDef>& tensors = kind == "input" ? def.inputs : def.outputs;
            tensors.push_back({fields[1], fields[2], std::vector<Token>(), fields[3] == "1"});
            tensor = &tensors.back();
        } else if (kind == "token") {
            std::vector<Token> tokens = tensor->rule.tokens;
            tokens.push_back({fields[1],
                              std::stoll(fields[2]),
                              fields[3] == "1",
                              fields[4] == "1",
                              fields[5],
                              fields[6] == "1",
                              {},
                              {}});
            tensor->rule = std::move(tokens);
        } else if (kind == "size") {
            tensor->rule.tokens.back().sizes.push_back(fields[1]);
        } else if (kind == "window") {
            tensor->rule.tokens.back().window.push_back(fields[1]);
        } else if (kind == "attribute") {
            def.attributes.push_back({fields[1],
                                      static_cast<AttributeKind>(std::stoi(fields[2])),
                                      {std::stoll(fields[3]), ParseReal(fields[4])},
                                      {},
                                      fields[5] == "1",
                                      ParseReal(fields[6])});
        } else if (kind == "choice") {
            def.attributes.back().choices.push_back(fields[1]);
        } else if (kind == "renamed") {
            def.attributes.back().renamed[fields[1]] = fields[2];
        } else if (kind == "formerly") {
            def.attributes.back().formerly = fields[1];
        } else if (kind == "axis") {
            def.attributes.back().axes.push_back(std::stoll(fields[1]));
        } else if (kind == "types") {
            def.types.emplace_back();
        } else if (kind == "type") {
            def.types.back()[fields[1]] = fields[2];
        } else if (kind == "reason") {
            def.reasons[fields[1]] = fields[2];
        } else if (kind == "positive") {
            def.positive.insert(fields[1]);
        } else if (kind == "multiple") {
            def.multiples[fields[1]] = fields[2];
        }
    }
    return def;
}

const std::string& Resolve(const std::map<std::string, std::string>& row, const std::string& dtype)
{
    const auto found = row.find(dtype);
    return found == row.end() ? dtype : found->second;
}

Signature::Signature(SignatureDef def) : def_(std::move(def))
{
    std::set<std::string> named;
    for (const auto* tensors : {&def_.inputs, &def_.outputs}) {
        for (const TensorDef& tensor : *tensors) {
            for (const Token& token : tensor.rule.tokens) {
                named.insert(token.attribute);
                named.insert(token.sizes.begin(), token.sizes.end());
                named.insert(token.window.begin(), token.window.end());
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

size_t Signature::MatchTypes(const std::vector<std::string>& dtypes) const
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
        if (dtypes[i].empty()) {
            if (!input.optional) {
                throw TypeError(def_.name + ": " + input.name + " must be a tensor, and is absent");
            }
            continue;
        }
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
                if (isVariable && !dtypes[j].empty() &&
                    std::find(seen.begin(), seen.end(), other.dtype) == seen.end()) {
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

std::vector<std::string> Signature::InferTypes(const std::vector<std::string>& dtypes) const
{
    const auto& row = def_.types[MatchTypes(dtypes)];
    std::vector<std::string> outputs;
    for (const TensorDef& output : def_.outputs) {
        outputs.push_back(Resolve(row, output.dtype));
    }
    return outputs;
}

ShapeMatcher Signature::MatcherOf(const ShapeMatcher::Attributes& attributes) const
{
    return {def_.name, def_.reasons, def_.positive, def_.multiples, attributes};
}

std::vector<Shape> Signature::InferShapes(const std::vector<Shape>& shapes, const Values& values) const
{
    ShapeMatcher::Attributes attributes;
    for (size_t i = 0; i < values.size(); ++i) {
        const AttributeDef& attribute = def_.attributes[i];
        attributes[attribute.name] = attribute.axes.empty() ? values[i].integer : attribute.axes[values[i].integer];
    }
    return InferShapes(shapes, attributes);
}

std::vector<Shape> Signature::InferShapes(const std::vector<Shape>& shapes,
                                          const ShapeMatcher::Attributes& attributes) const
{
    ShapeMatcher matcher = MatcherOf(attributes);
    for (const bool plain : {true, false}) {  // plain rules tell the lengths that the others need
        for (size_t i = 0; i < def_.inputs.size(); ++i) {
            if (def_.inputs[i].rule.IsPlain() == plain) {
                matcher.Match(def_.inputs[i].name, def_.inputs[i].rule, shapes[i]);
            }
        }
    }
    matcher.MatchMultiples();
    std::vector<Shape> outputs;
    for (const TensorDef& output : def_.outputs) {
        outputs.push_back(matcher.ShapeOf(output.rule));
    }
    return outputs;
}

std::vector<Shape> Signature::CompleteShapes(std::vector<Shape> shapes,
                                             const ShapeMatcher::Attributes& attributes) const
{
    ShapeMatcher matcher = MatcherOf(attributes);
    std::string known;
    for (size_t i = 0; i < def_.inputs.size(); ++i) {
        const TensorDef& input = def_.inputs[i];
        if (i < shapes.size()) {
            known += (known.empty() ? "" : ", ") + input.name;
        } else if (input.optional) {
            shapes.push_back({ABSENT});
        } else {
            shapes.push_back(matcher.ShapeOf(input.rule));
            if (std::any_of(shapes[i].begin(), shapes[i].end(), [](int64_t size) { return size < 0; })) {
                throw std::invalid_argument(def_.name + ": the shape of " + input.name +
                                            " does not follow from that of " + known);
            }
        }
        matcher.Match(input.name, input.rule, shapes[i]);
    }
    return shapes;
}

void Signature::CheckAttribute(const AttributeDef& attribute, const AttributeValue& value) const
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

AttributeValue Signature::ParseChoice(const AttributeDef& attribute, const std::string& text) const
{
    const auto old = attribute.renamed.find(text);
    const std::string& current = old == attribute.renamed.end() ? text : old->second;
    const auto found = std::find(attribute.choices.begin(), attribute.choices.end(), current);
    if (found == attribute.choices.end()) {
        std::vector<std::string> quoted;
        for (const std::string& choice : attribute.choices) {
            quoted.push_back("'" + choice + "'");
        }
        throw std::invalid_argument(def_.name + ": " + attribute.name + " must be " + OneOf(quoted) + ", got '" + text +
                                    "'");
    }
    AttributeValue value;
    value.integer = found - attribute.choices.begin();
    return value;
}

}  // namespace ms_ascend_ops::binding
