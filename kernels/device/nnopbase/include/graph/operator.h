/*!
 * This is CANN's graph/operator.h for the plugin of parsers: attributes by their names, as texts with their types.
 */
#ifndef MS_ASCEND_OPS_DEVICE_GRAPH_OPERATOR_H
#define MS_ASCEND_OPS_DEVICE_GRAPH_OPERATOR_H

#include <cstdint>
#include <map>
#include <string>

namespace ge {

using graphStatus = uint32_t;
constexpr graphStatus GRAPH_SUCCESS = 0;
constexpr graphStatus GRAPH_FAILED = 0xFFFFFFFF;

class AscendString {
public:
    AscendString() = default;
    explicit AscendString(const char* text) : text_(text) {}
    const char* GetString() const { return text_.c_str(); }

private:
    std::string text_;
};

class Operator {
public:
    std::map<std::string, std::string> attributes;

    graphStatus GetAttr(const char* name, AscendString& value) const
    {
        const auto found = attributes.find(name);
        if (found == attributes.end()) {
            return GRAPH_FAILED;
        }
        value = AscendString(found->second.c_str());
        return GRAPH_SUCCESS;
    }
    Operator& SetAttr(const char* name, int64_t value) { return Put(name, "int " + std::to_string(value)); }
    Operator& SetAttr(const char* name, bool value) { return Put(name, value ? "bool 1" : "bool 0"); }
    Operator& SetAttr(const char* name, float value) { return Put(name, "float " + std::to_string(value)); }
    Operator& SetAttr(const char* name, const AscendString& value)
    {
        return Put(name, std::string("string ") + value.GetString());
    }

private:
    Operator& Put(const char* name, const std::string& value)
    {
        attributes[name] = value;
        return *this;
    }
};

}  // namespace ge

#endif  // MS_ASCEND_OPS_DEVICE_GRAPH_OPERATOR_H
