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

// Finds the folders as ms_ascend_ops.ascend.packages does.
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

// The functions of a library of a package, of which there is one for each processor.
class OpHostLibrary {
public:
    explicit OpHostLibrary(const std::string& pattern)
    {
        glob_t found{};
        if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
            library_ = dlopen(found.gl_pathv[0], RTLD_NOW | RTLD_LOCAL);
        }
        globfree(&found);
    }

    template <typename Function>
    void Get(Function& function, const char* name) const
    {
        function = library_ == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library_, name));
    }

private:
    void* library_ = nullptr;
};

OpHost Open(const std::string& folder)
{
    OpHost host;
    const OpHostLibrary tiling(folder + "/op_impl/ai_core/tbe/op_tiling/lib/linux/*/libcust_opmaster_rt2.0.so");
    tiling.Get(host.tile, "MsAscendHostTile");
    tiling.Get(host.tilingReason, "MsAscendHostReason");
    const OpHostLibrary inference(folder + "/op_proto/lib/linux/*/libcust_opsproto_rt2.0.so");
    inference.Get(host.inferShape, "MsAscendHostInferShape");
    inference.Get(host.inferenceReason, "MsAscendHostReason");
    return host;
}

// Reads a folder, once in a process.
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
        const std::string kernels =
            folder + "/op_impl/ai_core/tbe/kernel/config/" + computeUnit + "/binary_info_config.json";
        if (Read(kernels).find("\"" + type + "\"") != std::string::npos) {
            return found = &Load(folder);
        }
        searched += (searched.empty() ? "" : ", ") + folder;
    }
    return nullptr;
}

}  // namespace device
}  // namespace ms_ascend_ops
