/*!
 * Implements HCCL's functions that make communicators and tell of them.
 */
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>

#include "hccl/communicator.h"

extern "C" {
int aclrtSynchronizeStream(void* stream);
int aclrtGetDevice(int32_t* device);
int aclrtSetDevice(int32_t device);
}

namespace ms_ascend_ops {
namespace device {
namespace {

std::string NameOf(const HcclCommConfig* config, const std::string& otherwise)
{
    const bool named = config != nullptr && config->bytes >= sizeof(HcclCommConfig) && config->name[0] != 0;
    return named ? std::string(config->name, strnlen(config->name, COMM_NAME_BYTES - 1)) : otherwise;
}

// Finds the other ranks; with `waits` it returns when that is done, as HCCL does.
HcclResult Open(const std::string& id, uint32_t size, uint32_t rank, const HcclCommConfig* config, bool waits,
                void** result)
{
    if (result == nullptr) {
        return Fail(HCCL_E_PTR, "HCCL: the pointer to the communicator must not be null");
    }
    if (rank >= size) {
        return Fail(HCCL_E_PARA, "HCCL: rank " + std::to_string(rank) + " is not among " + std::to_string(size));
    }
    auto communicator = std::make_unique<Communicator>(Communicator{id, NameOf(config, id), rank, size});
    CallWriter call("hccl:open");
    call.String(id);
    call.Int(rank);
    call.Int(size);
    call.String(communicator->name);
    if (const HcclResult failed = Launch(nullptr, call)) {
        return failed;
    }
    if (waits && aclrtSynchronizeStream(nullptr) != 0) {
        return HCCL_E_RUNTIME;
    }
    *result = communicator.release();
    return HCCL_SUCCESS;
}

std::string NewId()
{
    std::ifstream file("/proc/sys/kernel/random/uuid");
    std::string id;
    std::getline(file, id);
    return id;
}

// A table of ranks names each of them once; who reads the same table is of the same communicator.
HcclResult OpenByTable(const char* path, uint32_t rank, const HcclCommConfig* config, void** result)
{
    const std::string name = path == nullptr ? "" : path;
    std::ifstream file(name);
    std::stringstream text;
    if (!file || !(text << file.rdbuf())) {
        return Fail(HCCL_E_OPEN_FILE_FAILURE, "HCCL: cannot read the table of ranks '" + name + "'");
    }
    const std::string table = text.str();
    uint32_t size = 0;
    for (size_t at = table.find("\"rank_id\""); at != std::string::npos; at = table.find("\"rank_id\"", at + 1)) {
        ++size;
    }
    if (size == 0) {
        return Fail(HCCL_E_PARA, "HCCL: the table of ranks '" + name + "' names no rank (rank_id)");
    }
    return Open("table-" + std::to_string(std::hash<std::string>()(table)), size, rank, config, true, result);
}

}  // namespace

HCCL_API HcclResult HcclGetRootInfo(HcclRootInfo* info)
{
    if (info == nullptr) {
        return Fail(HCCL_E_PTR, "HcclGetRootInfo: rootInfo must not be null");
    }
    const std::string id = NewId();
    *info = {};
    id.copy(info->internal, ROOT_INFO_BYTES - 1);
    return id.empty() ? HCCL_E_INTERNAL : HCCL_SUCCESS;
}
HCCL_API HcclResult HcclCommInitRootInfoConfig(uint32_t size, const HcclRootInfo* info, uint32_t rank,
                                               const HcclCommConfig* config, void** communicator)
{
    if (info == nullptr) {
        return Fail(HCCL_E_PTR, "HcclCommInitRootInfoConfig: rootInfo must not be null");
    }
    return Open(std::string(info->internal, strnlen(info->internal, 64)), size, rank, config, true, communicator);
}
HCCL_API HcclResult HcclCommInitRootInfo(uint32_t size, const HcclRootInfo* info, uint32_t rank, void** communicator)
{
    return HcclCommInitRootInfoConfig(size, info, rank, nullptr, communicator);
}
HCCL_API HcclResult HcclCommInitClusterInfo(const char* path, uint32_t rank, void** communicator)
{
    return OpenByTable(path, rank, nullptr, communicator);
}
HCCL_API HcclResult HcclCommInitClusterInfoConfig(const char* path, uint32_t rank, HcclCommConfig* config,
                                                  void** communicator)
{
    return OpenByTable(path, rank, config, communicator);
}
// Who is not of the group gets no communicator.
HCCL_API HcclResult HcclCreateSubCommConfig(void** parent, uint32_t size, uint32_t* ranks, uint64_t id, uint32_t rank,
                                            HcclCommConfig* config, void** communicator)
{
    if (ranks == nullptr) {
        return HCCL_SUCCESS;
    }
    if (parent == nullptr || *parent == nullptr) {
        return Fail(HCCL_E_PTR, "HcclCreateSubCommConfig: comm must not be null");
    }
    const auto& all = *static_cast<const Communicator*>(*parent);
    return Open(all.id + "/" + std::to_string(id) + "-" + std::to_string(ranks[0]), size, rank, config, true,
                communicator);
}
// All ranks are devices of this program: none waits before the last one is asked.
HCCL_API HcclResult HcclCommInitAll(uint32_t size, int32_t* devices, void** communicators)
{
    int32_t before = 0;
    const bool had = aclrtGetDevice(&before) == 0;
    const std::string id = NewId();
    HcclResult failed = HCCL_SUCCESS;
    for (uint32_t rank = 0; rank < size && failed == HCCL_SUCCESS; ++rank) {
        failed = aclrtSetDevice(devices[rank]) == 0 ? Open(id, size, rank, nullptr, false, communicators + rank)
                                                    : HCCL_E_RUNTIME;
    }
    for (uint32_t rank = 0; rank < size && failed == HCCL_SUCCESS; ++rank) {
        aclrtSetDevice(devices[rank]);
        failed = aclrtSynchronizeStream(nullptr) == 0 ? HCCL_SUCCESS : HCCL_E_RUNTIME;
    }
    if (had) {
        aclrtSetDevice(before);
    }
    return failed;
}
HCCL_API HcclResult HcclCommDestroy(void* handle)
{
    const std::unique_ptr<Communicator> communicator(static_cast<Communicator*>(handle));
    if (communicator == nullptr) {
        return HCCL_SUCCESS;
    }
    CallWriter call("hccl:close");
    call.String(communicator->id);
    call.Int(communicator->rank);
    return Launch(nullptr, call);
}

HCCL_API HcclResult HcclGetRankId(void* communicator, uint32_t* rank)
{
    *rank = static_cast<const Communicator*>(communicator)->rank;
    return HCCL_SUCCESS;
}
HCCL_API HcclResult HcclGetRankSize(void* communicator, uint32_t* size)
{
    *size = static_cast<const Communicator*>(communicator)->size;
    return HCCL_SUCCESS;
}
HCCL_API HcclResult HcclGetCommName(void* communicator, char* name)
{
    const std::string& known = static_cast<const Communicator*>(communicator)->name;
    name[known.copy(name, COMM_NAME_BYTES - 1)] = 0;
    return HCCL_SUCCESS;
}
HCCL_API uint32_t HcclGetCommConfigCapability()
{
    return CONFIG_CAPABILITY;
}
// An error belongs to a stream: whoever waits for it is told.
HCCL_API HcclResult HcclGetCommAsyncError(void*, HcclResult* error)
{
    *error = HCCL_SUCCESS;
    return HCCL_SUCCESS;
}
HCCL_API const char* HcclGetErrorString(HcclResult code)
{
    return code == HCCL_SUCCESS ? "no error" : "an error of HCCL; aclGetRecentErrMsg has its text";
}
HCCL_API HcclResult HcclSetConfig(int, int)
{
    return HCCL_SUCCESS;  // sums are deterministic anyway
}

}  // namespace device
}  // namespace ms_ascend_ops
