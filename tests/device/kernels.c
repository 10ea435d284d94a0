// A kernel library for tests of the device process (MS_ASCEND_EMULATED_KERNELS): its kernels end in every way.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "binding/c_api.h"

static void (*violation)(const char*);
static uint64_t (*written)(const void*, uint64_t);
static void (*writes)(const void*, uint64_t);

void MsAscendCheckSetHooks(void (*v)(const char*), uint64_t (*w)(const void*, uint64_t), void (*n)(const void*, uint64_t))
{
    violation = v;
    written = w;
    writes = n;
}

#ifdef TRACED
// The traced build's functions: one core that did nothing.
int32_t MsAscendTraceCoreCount(void)
{
    return 1;
}

const void* MsAscendTraceRecords(int32_t core, uint64_t* count)
{
    (void)core;
    *count = 0;
    return NULL;
}

const char* MsAscendTraceJson(void)
{
    return "{\"kernel\": \"AddOne\", \"arguments\": [], \"workspace_bytes\": 0, \"names\": [], \"places\": [], "
           "\"ub_used_bytes\": 0}";
}
#endif

MsAscendStatus MsAscendOpsRunEntry(const char* type, uint32_t row, uint32_t blockDim, uint64_t tilingKey,
                                   const void* tiling, size_t tilingBytes, const MsAscendTensor* tensors, int32_t count,
                                   void* workspace, size_t workspaceBytes, char* error, size_t errorBytes)
{
    const int64_t elements = tensors[0].shape[0];
    const uint64_t bytes = (uint64_t)elements * sizeof(float);
    if (strcmp(type, "AddOne") == 0) {
        if (strcmp(tensors[0].dtype, "float32") != 0 || tensors[1].data != NULL || count != 3 || tilingBytes != 4 ||
            *(const int32_t*)tiling != 77 || row != 1 || blockDim != 2 || tilingKey != 3 || workspaceBytes != 5) {
            return MS_ASCEND_ERROR;
        }
        if (written(tensors[0].data, bytes) < bytes) {
            snprintf(error, errorBytes, "byte %d has not been written", (int)written(tensors[0].data, bytes));
            return MS_ASCEND_ERROR;
        }
        for (int64_t i = 0; i < elements; ++i) {
            ((float*)tensors[2].data)[i] = ((const float*)tensors[0].data)[i] + 1;
        }
        writes(tensors[2].data, bytes);
        return MS_ASCEND_OK;
    }
    if (strcmp(type, "Trap") == 0) {
        snprintf(error, errorBytes, "trap at kernel line 12");
        return MS_ASCEND_ERROR;
    }
    if (strcmp(type, "Break") == 0) {
        violation("kernels.c:12: breaks the rule gm-bounds");
    }
    abort();
}
