/*!
 * This is CANN's register/register.h: plugins of parsers, by the type that an original model calls an operator.
 */
#ifndef MS_ASCEND_OPS_DEVICE_REGISTER_REGISTER_H
#define MS_ASCEND_OPS_DEVICE_REGISTER_REGISTER_H

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "graph/operator.h"

namespace domi {

using Status = uint32_t;
constexpr Status SUCCESS = 0;
constexpr Status FAILED = 0xFFFFFFFF;
enum FrameworkType { CAFFE = 0, TENSORFLOW = 3, ONNX = 5 };
enum class ImplyType : unsigned int { BUILDIN = 0, TVM };
using ParseParamByOpFunc = std::function<Status(const ge::Operator&, ge::Operator&)>;

struct Plugin {
    std::string type;  // of CANN's operator
    ParseParamByOpFunc parse;
};
inline std::map<std::string, Plugin>& Plugins()
{
    static std::map<std::string, Plugin> plugins;
    return plugins;
}

class OpRegistrationData {
public:
    explicit OpRegistrationData(const char* type) : type_(type) {}
    OpRegistrationData& FrameworkType(const domi::FrameworkType& framework)
    {
        known_ = framework == ONNX;
        return *this;
    }
    OpRegistrationData& OriginOpType(const std::vector<ge::AscendString>& types)
    {
        types_ = types;
        return *this;
    }
    OpRegistrationData& ParseParamsByOperatorFn(const ParseParamByOpFunc& parse)
    {
        parse_ = parse;
        return *this;
    }
    OpRegistrationData& ImplyType(const domi::ImplyType& type)
    {
        known_ = known_ && type == domi::ImplyType::TVM;
        return *this;
    }
    void Register() const
    {
        for (const ge::AscendString& type : types_) {
            if (known_) {
                Plugins()[type.GetString()] = {type_, parse_};
            }
        }
    }

private:
    std::string type_;
    bool known_ = false;
    std::vector<ge::AscendString> types_;
    ParseParamByOpFunc parse_;
};

struct OpReceiver {
    OpReceiver(const OpRegistrationData& data) { data.Register(); }
};

}  // namespace domi

// Like CANN's own, it is for namespace domi.
#define MS_ASCEND_RECEIVER(counter, name) MS_ASCEND_RECEIVER_OF(counter, name)
#define MS_ASCEND_RECEIVER_OF(counter, name) static const OpReceiver receiver##counter = OpRegistrationData(name)
#define REGISTER_CUSTOM_OP(name) MS_ASCEND_RECEIVER(__COUNTER__, name)

#endif  // MS_ASCEND_OPS_DEVICE_REGISTER_REGISTER_H
