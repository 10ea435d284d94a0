#include "package.h"

#include <dlfcn.h>
#include <glob.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <utility>

namespace ms_ascend_ops {
namespace device {
namespace {

std::string Variable(const char* name)
{
    const char* const value = std::getenv(name);
    return value == nullptr ? "" : value;
}

std::vector<std::string> Split(const std::string& text, char separator)
{
    std::vector<std::string> parts;
    std::stringstream stream(text);
    for (std::string part; std::getline(stream, part, separator);) {
        part.erase(0, part.find_first_not_of(" \t\r"));
        part.erase(part.find_last_not_of(" \t\r") + 1);
        if (!part.empty()) {
            parts.push_back(part);
        }
    }
    return parts;
}

// As ms_ascend_ops.ascend.packages has it.
std::vector<std::string> Folders()
{
    std::vector<std::string> folders = Split(Variable("ASCEND_CUSTOM_OPP_PATH"), ':');
    const std::string opp = Variable("ASCEND_OPP_PATH");
    std::ifstream config(opp + "/vendors/config.ini");
    for (std::string line; !opp.empty() && std::getline(config, line);) {
        const std::string key = "load_priority=";
        if (line.compare(0, key.size(), key) == 0) {
            for (const std::string& name : Split(line.substr(key.size()), ',')) {
                folders.push_back(opp + "/vendors/" + name);
            }
        }
    }
    return folders;
}

std::string Read(const std::string& path)
{
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

OpHost Open(const std::string& folder)
{
    OpHost host;
    glob_t found{};
    const std::string pattern = folder + "/op_impl/ai_core/tbe/op_tiling/lib/linux/*/libcust_opmaster_rt2.0.so";
    if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
        if (void* const library = dlopen(found.gl_pathv[0], RTLD_NOW | RTLD_LOCAL)) {
            const auto get = [library](auto& function, const char* name) {
                function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
            };
            get(host.tile, "MsAscendHostTile");
            get(host.inferShape, "MsAscendHostInferShape");
            get(host.inferDataType, "MsAscendHostInferDataType");
            get(host.reason, "MsAscendHostReason");
        }
    }
    globfree(&found);
    return host;
}

// What was read of a folder, once in a process.
const Package& Load(const std::string& folder)
{
    static std::map<std::string, std::unique_ptr<Package>> packages;
    std::unique_ptr<Package>& package = packages[folder];
    if (package == nullptr) {
        package = std::make_unique<Package>(Package{folder, Open(folder)});
    }
    return *package;
}

}  // namespace

const Package* FindPackage(const std::string& type, const std::string& computeUnit, std::string& searched)
{
    static std::mutex mutex;
    static std::map<std::pair<std::string, std::string>, const Package*> known;
    const std::lock_guard<std::mutex> lock(mutex);
    const Package*& found = known[{type, computeUnit}];
    if (found != nullptr) {
        return found;
    }
    for (const std::string& folder : Folders()) {
        const std::string info =
            folder + "/op_impl/ai_core/tbe/config/" + computeUnit + "/aic-" + computeUnit + "-ops-info.json";
        if (Read(info).find("\"" + type + "\"") != std::string::npos) {
            return found = &Load(folder);
        }
        searched += (searched.empty() ? "" : ", ") + folder;
    }
    return nullptr;
}

}  // namespace device
}  // namespace ms_ascend_ops
