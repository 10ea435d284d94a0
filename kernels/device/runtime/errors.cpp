#include "runtime/errors.h"

#include <cstdio>

#include "runtime/settings.h"

namespace ms_ascend_ops {
namespace device {
namespace {

thread_local std::string last;      // that aclGetRecentErrMsg has not given yet
thread_local std::string returned;  // what aclGetRecentErrMsg gave
thread_local aclError lastCode = SUCCESS;

}  // namespace

aclError Fail(aclError code, const std::string& text)
{
    last = text;
    lastCode = code >= RT_PARAM_INVALID ? code : lastCode;  // aclrtGetLastError tells those of the runtime only
    if (TheSettings().logs) {
        std::fprintf(stderr, "[emulated Ascend device] error %d: %s\n", code, text.c_str());
    }
    return code;
}

std::string Hex(uint64_t address)
{
    char text[32];
    std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(address));
    return text;
}

const std::string& LastErrorText()
{
    return last;
}

const char* TakeErrorText()
{
    returned.swap(last);
    last.clear();
    return returned.c_str();
}

aclError LastErrorCode(bool clears)
{
    const aclError code = lastCode;
    lastCode = clears ? static_cast<aclError>(SUCCESS) : lastCode;
    return code;
}

}  // namespace device
}  // namespace ms_ascend_ops
