/*!
 * Implements the classes of the graph engine that MindSpore's plugin calls when it is loaded, as far as it looks at
 * what they give back. The layout of the objects is CANN's: MindSpore has been compiled with its headers, and with the
 * old ABI.
 */
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#define EXPORT __attribute__((visibility("default")))

namespace ge {

class EXPORT StatusFactory {
public:
    static StatusFactory* Instance();

private:
    std::map<uint32_t, std::string> descriptions_;  // MindSpore adds its own in code that CANN's header brings
};

StatusFactory* StatusFactory::Instance()
{
    static StatusFactory* const instance = new StatusFactory;  // outlives the libraries that use it
    return instance;
}

class EXPORT AscendString {
public:
    AscendString(const char* text);
    bool operator<(const AscendString& other) const;
    const char* GetString() const;

private:
    std::shared_ptr<std::string> text_;
};

AscendString::AscendString(const char* text)
{
    if (text != nullptr) {
        text_ = std::make_shared<std::string>(text);
    }
}

bool AscendString::operator<(const AscendString& other) const
{
    return std::string(GetString()) < other.GetString();
}

const char* AscendString::GetString() const
{
    return text_ ? text_->c_str() : "";
}

struct OperatorImpl {
    std::string name;
    std::string type;
};

class EXPORT Operator {
public:
    explicit Operator(const std::string& type);
    explicit Operator(const char* type);
    Operator(const std::string& name, const std::string& type);
    Operator(const char* name, const char* type);
    Operator(const AscendString& name, const AscendString& type);
    virtual ~Operator() = default;
    std::string GetName() const;
    std::string GetOpType() const;
    uint32_t GetAttr(const char* name, bool& value) const;
    uint32_t GetAttr(const char* name, int32_t& value) const;
    uint32_t GetAttr(const char* name, int64_t& value) const;
    uint32_t GetAttr(const char* name, float& value) const;

private:
    std::shared_ptr<OperatorImpl> impl_;
    std::shared_ptr<void> graph_;
};

Operator::Operator(const std::string& type) : Operator(type, type) {}
Operator::Operator(const char* type) : Operator(type, type) {}
Operator::Operator(const char* name, const char* type) : Operator(std::string(name), std::string(type)) {}
Operator::Operator(const AscendString& name, const AscendString& type) : Operator(name.GetString(), type.GetString()) {}
Operator::Operator(const std::string& name, const std::string& type)
    : impl_(std::make_shared<OperatorImpl>(OperatorImpl{name, type}))
{}

std::string Operator::GetName() const
{
    return impl_->name;
}

std::string Operator::GetOpType() const
{
    return impl_->type;
}

// MindSpore asks for the default of an attribute that its primitive does not have, and takes what is there whatever
// this returns: 0, as all of those are that the emulated device's operators have.
uint32_t Operator::GetAttr(const char*, bool& value) const
{
    value = false;
    return 0;
}

uint32_t Operator::GetAttr(const char*, int32_t& value) const
{
    value = 0;
    return 0;
}

uint32_t Operator::GetAttr(const char*, int64_t& value) const
{
    value = 0;
    return 0;
}

uint32_t Operator::GetAttr(const char*, float& value) const
{
    value = 0;
    return 0;
}

class EXPORT OperatorFactory {
public:
    static Operator CreateOperator(const char* name, const char* type);
    static Operator CreateOperator(const std::string& name, const std::string& type);
    static bool IsExistOp(const char* type);
    static bool IsExistOp(const std::string& type);
};

Operator OperatorFactory::CreateOperator(const char* name, const char* type)
{
    return Operator(name, type);
}

Operator OperatorFactory::CreateOperator(const std::string& name, const std::string& type)
{
    return Operator(name, type);
}

// The call of an operator tells whether it can be computed, so all exist.
bool OperatorFactory::IsExistOp(const char*)
{
    return true;
}

bool OperatorFactory::IsExistOp(const std::string&)
{
    return true;
}

}  // namespace ge
