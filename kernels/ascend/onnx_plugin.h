/*!
 * Attributes of ONNX nodes for ATC: CANN's parser hands a node's attributes to the plugin as one text of JSON,
 * {"attribute": [{"name": "epsilon", "type": 1, "f": "1e-05"}, ...]}, and the plugin sets them on the operator.
 *
 * The parser writes floats with six digits. Attributes of the operators of this package are numbers and words: an
 * object of the list holds no other one, so that it ends at the next brace.
 */
#ifndef MS_ASCEND_OPS_ASCEND_ONNX_PLUGIN_H
#define MS_ASCEND_OPS_ASCEND_ONNX_PLUGIN_H

#include <cstdint>
#include <exception>
#include <initializer_list>
#include <regex>
#include <string>

#include "graph/operator.h"
#include "register/register.h"

namespace ms_ascend_ops {
namespace onnx {

enum class Kind { INT, BOOL, FLOAT, STRING };

struct Attribute {
    const char* name;
    Kind kind;
    const char* formerly;  // in files of earlier releases
};

// The value of `key` in an object of JSON, without quotes; empty if there is none.
inline std::string Value(const std::string& object, const std::string& key)
{
    std::smatch match;
    const std::regex pattern("\"" + key + "\"\\s*:\\s*\"?([^\",}\\s]*)");
    return std::regex_search(object, match, pattern) ? match[1].str() : std::string();
}

inline void Set(ge::Operator& op, const Attribute& attribute, const std::string& object)
{
    switch (attribute.kind) {
        case Kind::INT:
            op.SetAttr(attribute.name, static_cast<int64_t>(std::stoll(Value(object, "i"))));
            break;
        case Kind::BOOL:
            op.SetAttr(attribute.name, std::stoll(Value(object, "i")) != 0);
            break;
        case Kind::FLOAT:
            op.SetAttr(attribute.name, std::stof(Value(object, "f")));
            break;
        case Kind::STRING:
            op.SetAttr(attribute.name, ge::AscendString(Value(object, "s").c_str()));
            break;
    }
}

// What the node does not have keeps its default.
inline domi::Status ParseAttributes(const ge::Operator& node, ge::Operator& op,
                                    std::initializer_list<Attribute> attributes)
{
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
                    Set(op, attribute, found->str());
                }
            }
        }
    } catch (const std::exception&) {
        return domi::FAILED;  // an attribute of another type
    }
    return domi::SUCCESS;
}

}  // namespace onnx
}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_ASCEND_ONNX_PLUGIN_H
