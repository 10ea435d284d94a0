#include "cube/onednn_library.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace AscendC {
namespace host {
namespace onednn {
namespace {

constexpr const char* VARIABLE = "MS_ASCEND_OPS_ONEDNN";

// MindSpore keeps it beside its own libraries: the folder of one that this process has loaded.
int FindMindSpore(dl_phdr_info* info, size_t, void* found)
{
    const char* name = info->dlpi_name == nullptr ? "" : info->dlpi_name;
    const char* file = std::strrchr(name, '/');
    if (file == nullptr || std::strncmp(file + 1, "libmindspore", std::strlen("libmindspore")) != 0) {
        return 0;
    }
    *static_cast<std::string*>(found) = std::string(name, static_cast<size_t>(file + 1 - name));
    return 1;
}

void* Open(std::string& problem)
{
    if (const char* path = std::getenv(VARIABLE)) {
        if (*path == '\0' || std::strcmp(path, "0") == 0) {
            problem = std::string("switched off by ") + VARIABLE;
            return nullptr;
        }
        void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) {
            problem = dlerror();
            std::fprintf(stderr, "ms_ascend_ops: %s: %s; products are calculated by plain loops\n", VARIABLE,
                         problem.c_str());
        }
        return library;
    }
    for (const char* name : LIBRARIES) {
        if (void* loaded = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) {
            return loaded;
        }
    }
    std::string beside;
    dl_iterate_phdr(&FindMindSpore, &beside);
    for (const std::string& folder : {beside, std::string()}) {  // empty: where the system looks
        for (const char* name : LIBRARIES) {
            if (void* library = dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL)) {
                return library;
            }
        }
    }
    problem = std::string("no ") + LIBRARIES[0] + ": MindSpore, which brings it, is not loaded";
    return nullptr;
}

template <typename FUNCTION>
bool Find(void* library, const char* name, FUNCTION& function, std::string& problem)
{
    function = reinterpret_cast<FUNCTION>(dlsym(library, name));
    if (function == nullptr) {
        problem = std::string("oneDNN has no ") + name;
    }
    return function != nullptr;
}

// A library that is built for another threading than thread pools of others has not all of these.
void FindConvolutions(void* library, Functions& f)
{
    std::string problem;
    const auto find = [&](const char* name, auto& function) { return Find(library, name, function, problem); };
    const bool hasAll =
        find("dnnl_memory_desc_create_with_tag", f.memoryDescCreateWithTag) &&
        find("dnnl_memory_desc_equal", f.memoryDescEqual) && find("dnnl_memory_desc_get_size", f.memoryDescSize) &&
        find("dnnl_primitive_desc_query_md", f.primitiveDescQueryMemory) &&
        find("dnnl_primitive_desc_query", f.primitiveDescQuery) &&
        find("dnnl_primitive_attr_create", f.attributesCreate) &&
        find("dnnl_primitive_attr_destroy", f.attributesDestroy) &&
        find("dnnl_primitive_attr_set_post_ops", f.attributesSetPostOps) &&
        find("dnnl_primitive_attr_set_scales_mask", f.attributesSetScalesMask) &&
        find("dnnl_post_ops_create", f.postOpsCreate) && find("dnnl_post_ops_destroy", f.postOpsDestroy) &&
        find("dnnl_post_ops_append_eltwise", f.postOpsAppendEltwise) &&
        find("dnnl_reorder_primitive_desc_create", f.reorderCreate) &&
        find("dnnl_convolution_forward_primitive_desc_create", f.convolutionCreate) &&
        find("dnnl_convolution_backward_data_primitive_desc_create", f.convolutionBackwardDataCreate) &&
        find("dnnl_convolution_backward_weights_primitive_desc_create", f.convolutionBackwardWeightsCreate) &&
        find("dnnl_threadpool_interop_get_max_concurrency", f.maxConcurrency) &&
        find("dnnl_threadpool_interop_set_max_concurrency", f.setMaxConcurrency);
    if (!hasAll || !find("dnnl_threadpool_interop_stream_create", f.streamCreateOnPool)) {
        f.streamCreateOnPool = nullptr;
    }
}

}  // namespace

bool FindFunctions(Functions& functions, std::string& problem)
{
    Functions& f = functions;
    void* const library = Open(problem);
    const auto find = [&](const char* name, auto& function) { return Find(library, name, function, problem); };
    const bool hasMatrices = library != nullptr && find("dnnl_version", f.version) && find("dnnl_sgemm", f.sgemm) &&
                             find("dnnl_gemm_bf16bf16f32", f.bf16Gemm) && find("dnnl_gemm_s8s8s32", f.integerGemm) &&
                             find("dnnl_get_effective_cpu_isa", f.effectiveCpuIsa);
    if (!hasMatrices || f.version()->major == 2) {
        return hasMatrices;
    }
    FindConvolutions(library, f);
    return find("dnnl_engine_create", f.engineCreate) && find("dnnl_stream_create", f.streamCreate) &&
           find("dnnl_memory_desc_create_with_strides", f.memoryDescCreate) &&
           find("dnnl_memory_desc_destroy", f.memoryDescDestroy) && find("dnnl_memory_create", f.memoryCreate) &&
           find("dnnl_memory_destroy", f.memoryDestroy) && find("dnnl_memory_set_data_handle", f.memorySetHandle) &&
           find("dnnl_matmul_primitive_desc_create", f.matmulCreate) &&
           find("dnnl_primitive_create", f.primitiveCreate) &&
           find("dnnl_primitive_desc_destroy", f.primitiveDescDestroy) &&
           find("dnnl_primitive_destroy", f.primitiveDestroy) && find("dnnl_primitive_execute", f.primitiveExecute);
}

}  // namespace onednn
}  // namespace host
}  // namespace AscendC
