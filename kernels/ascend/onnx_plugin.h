/*!
 * Reads attributes of ONNX nodes for ATC. CANN's parser hands a node's attributes to the plugin as one text of JSON,
 * {"attribute": [{"name": "epsilon", "type": 1, "f": "1e-05"}, ...]}, and the plugin sets them on the operator.
 *
 * The parser writes floats with six digits. Attributes of the operators of this package are numbers and words: an
 * object of the list holds no other one, so that it ends at the next brace.
 */
#ifndef MS_ASCEND_OPS_ASCEND_ONNX_PLUGIN_H
#define MS_ASCEND_OPS_ASCEND_ONNX_PLUGIN_H

#include <cstdint>
#include <exception>
#include <regex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "graph/operator.h"
#include "register/register.h"

namespace ms_ascend_ops {
namespace onnx {

enum class Kind { INT, BOOL, FLOAT, CHOICE };

struct Attribute {
    const char* name;
    Kind kind;
    double preset;                                         // of a node without the attribute; of a choice, its index
    const char* formerly;                                  // in files of earlier releases
    std::vector<std::pair<std::string, int64_t>> choices;  // texts, also of earlier releases, and their indices
};

// Returns the value of `key` in an object of JSON, without quotes; empty if there is none.
inline std::string Value(const std::string& object, const std::string& key)
{
    std::smatch match;
    const std::regex pattern("\"" + key + "\"\\s*:\\s*\"?([^\",}\\s]*)");
    return std::regex_search(object, match, pattern) ? match[1].str() : std::string();
}

// Returns the index of a choice's text: the definition of the operator stores that.
inline int64_t Index(const Attribute& attribute, const std::string& text)
{
    for (const auto& [choice, index] : attribute.choices) {
        if (choice == text) {
            return index;
        }
    }
    throw std::invalid_argument(text);
}

// Returns the attribute's number in an object of the list. Integers are sizes and axes, which a double holds exactly.
inline double Number(const Attribute& attribute, const std::string& object)
{
    switch (attribute.kind) {
        case Kind::FLOAT:
            return std::stof(Value(object, "f"));
        case Kind::CHOICE:
            return static_cast<double>(Index(attribute, Value(object, "s")));
        default:
            return static_cast<double>(std::stoll(Value(object, "i")));
    }
}

inline void Set(ge::Operator& op, const Attribute& attribute, double value)
{
    switch (attribute.kind) {
        case Kind::FLOAT:
            op.SetAttr(attribute.name, static_cast<float>(value));
            break;
        case Kind::BOOL:
            op.SetAttr(attribute.name, value != 0);
            break;
        default:
            op.SetAttr(attribute.name, static_cast<int64_t>(value));
            break;
    }
}

// The operator's definition requires every attribute, a node has those that differ from the presets.
inline domi::Status ParseAttributes(const ge::Operator& node, ge::Operator& op,
                                    const std::vector<Attribute>& attributes)
{
    for (const Attribute& attribute : attributes) {
        Set(op, attribute, attribute.preset);
    }
    ge::AscendString json;
    if (node.GetAttr("attribute", json) != ge::GRAPH_SUCCESS) {
        return domi::SUCCESS;
    }
    const std::string text = json.GetString();
    const std::regex object("\\{[^{}]*\\}");
    try {
        for (std::sregex_iterator found(text.begin(), text.end(), object), end; found != end; ++found) {
            const std::string name = Value(found->str(), "name");
            for (const Attribute& attribute : attributes) {
                if (name == attribute.name || name == attribute.formerly) {
                    Set(op, attribute, Number(attribute, found->str()));
                }
            }
        }
    } catch (const std::exception&) {
        return domi::FAILED;  // an attribute of another type, or a text that is no choice
    }
    return domi::SUCCESS;
}

}  // namespace onnx
}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_ASCEND_ONNX_PLUGIN_H
