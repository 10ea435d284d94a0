#include "runtime/settings.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "protocol/session.h"

namespace ms_ascend_ops {
namespace device {
namespace {

std::string Variable(const char* name)
{
    const char* const value = std::getenv((std::string("MS_ASCEND_EMULATED_") + name).c_str());
    return value == nullptr ? "" : value;
}

bool ParseNumber(const std::string& text, uint64_t& number)
{
    if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos || text.size() > 18) {
        return false;
    }
    number = std::strtoull(text.c_str(), nullptr, 10);
    return true;
}

std::string ParseChip(const std::string& text, Settings& settings)
{
    MsAscendDeviceChip& chip = settings.chip;
    std::istringstream parts(text);
    for (std::string part; std::getline(parts, part, ';');) {
        const size_t equals = part.find('=');
        const std::string key = part.substr(0, equals);
        const std::string value = equals == std::string::npos ? "" : part.substr(equals + 1);
        uint64_t number = 0;
        if (key == "soc") {
            settings.soc = value;
        } else if (key == "unit") {
            settings.computeUnit = value;
        } else if (!ParseNumber(value, number)) {
            return "MS_ASCEND_EMULATED_CHIP: `" + part + "` is not a key, `=` and a number";
        } else if (key == "cube") {
            chip.cubeCores = static_cast<uint32_t>(number);
        } else if (key == "vector") {
            chip.vectorCores = static_cast<uint32_t>(number);
        } else if (key == "ub") {
            chip.ubBytes = number;
        } else if (key == "l1") {
            chip.l1Bytes = number;
        } else if (key == "l0a") {
            chip.l0aBytes = number;
        } else if (key == "l0b") {
            chip.l0bBytes = number;
        } else if (key == "l0c") {
            chip.l0cBytes = number;
        } else if (key == "l2") {
            chip.l2Bytes = number;
        } else if (key == "memory") {
            chip.memoryBytes = number;
        } else {
            return "MS_ASCEND_EMULATED_CHIP: the key `" + key + "` is unknown";
        }
    }
    return "";
}

// This library is PACKAGE/lib/cann/lib64/libascendcl.so.
std::string PackageFolder()
{
    Dl_info info;
    if (dladdr(reinterpret_cast<const void*>(&TheSettings), &info) == 0) {
        return "";
    }
    char* const resolved = realpath(info.dli_fname, nullptr);
    std::string path = resolved == nullptr ? info.dli_fname : resolved;
    std::free(resolved);
    for (int folders = 0; folders < 4; ++folders) {
        path.erase(std::min(path.size(), path.rfind('/')));
    }
    return path;
}

std::string PythonOfProgram()
{
    char path[4096];
    const ssize_t size = readlink("/proc/self/exe", path, sizeof(path) - 1);
    const std::string program(path, size > 0 ? static_cast<size_t>(size) : 0);
    const bool isPython = program.substr(program.rfind('/') + 1).rfind("python", 0) == 0;
    return isPython ? program : "python3";
}

Settings ReadSettings()
{
    Settings settings;
    settings.chip = {nullptr, nullptr, 24, 48, 196608, 524288, 65536, 65536, 131072, 201326592, 68719476736};
    settings.error = ParseChip(Variable("CHIP"), settings);
    uint64_t number = 0;
    const std::string devices = Variable("DEVICES");
    if (!devices.empty()) {
        if (!ParseNumber(devices, number) || number < 1 || number > MAX_DEVICES) {
            settings.error = "MS_ASCEND_EMULATED_DEVICES must be a number from 1 to " + std::to_string(MAX_DEVICES) +
                             ", got " + devices;
        } else {
            settings.devices = static_cast<uint32_t>(number);
        }
    }
    const uint64_t machine =
        static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
    settings.memoryBytes = std::min<uint64_t>(settings.chip.memoryBytes, machine / 2);
    const std::string memory = Variable("MEMORY");
    if (!memory.empty()) {
        if (!ParseNumber(memory, number) || number < (1U << 20) || number > MEMORY_SPAN / 2) {
            settings.error = "MS_ASCEND_EMULATED_MEMORY must be a number of bytes from 1 MiB to 512 GiB, got " + memory;
        } else {
            settings.memoryBytes = number;
        }
    }
    settings.chip.memoryBytes = settings.memoryBytes;
    settings.package = PackageFolder();
    settings.kernels = Variable("KERNELS");
    if (settings.kernels.empty()) {
        settings.kernels = settings.package + "/lib/libms_ascend_ops.so";
    }
    settings.python = Variable("PYTHON");
    if (settings.python.empty()) {
        settings.python = PythonOfProgram();
    }
    settings.checks = Variable("CHECK") == "1";
    settings.logs = Variable("LOG") == "1";
    settings.trace = Variable("TRACE");
    return settings;
}

}  // namespace

const Settings& TheSettings()
{
    static Settings* const settings = [] {
        auto* const read = new Settings(ReadSettings());
        read->chip.soc = read->soc.c_str();
        read->chip.computeUnit = read->computeUnit.c_str();
        return read;
    }();
    return *settings;
}

}  // namespace device
}  // namespace ms_ascend_ops
