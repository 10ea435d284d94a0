/*!
 * Declares HCCL's types, as far as its functions here read them. Names and values are those of CANN's
 * hccl/hccl_types.h.
 */
#ifndef MS_ASCEND_OPS_DEVICE_HCCL_API_H
#define MS_ASCEND_OPS_DEVICE_HCCL_API_H

#include <cstddef>
#include <cstdint>

enum HcclResult {
    HCCL_SUCCESS = 0,
    HCCL_E_PARA = 1,
    HCCL_E_PTR = 2,
    HCCL_E_INTERNAL = 4,
    HCCL_E_NOT_SUPPORT = 5,
    HCCL_E_OPEN_FILE_FAILURE = 10,
    HCCL_E_RUNTIME = 15
};

enum HcclReduceOp { HCCL_REDUCE_SUM = 0, HCCL_REDUCE_PROD = 1, HCCL_REDUCE_MAX = 2, HCCL_REDUCE_MIN = 3 };

constexpr size_t ROOT_INFO_BYTES = 4108;
constexpr size_t COMM_NAME_BYTES = 128;
constexpr uint32_t CONFIG_CAPABILITY = 5;  // the fields of a config that CANN 8.1 knows; what they say is of no effect

struct HcclRootInfo {
    char internal[ROOT_INFO_BYTES];
};

// Later versions of CANN have more fields behind these.
struct HcclCommConfig {
    size_t bytes;  // of all
    uint32_t magic;
    uint32_t version;
    uint64_t reserved;
    uint32_t bufferSize;
    uint32_t deterministic;
    char name[COMM_NAME_BYTES];
};

enum HcclSendRecvType { HCCL_SEND = 0, HCCL_RECV = 1 };
struct HcclSendRecvItem {
    HcclSendRecvType type;
    void* buffer;
    uint64_t count;
    int dtype;
    uint32_t remoteRank;
};

#endif  // MS_ASCEND_OPS_DEVICE_HCCL_API_H
