/*!
 * Calls aclnn functions on torch_npu's tensors from torch_npu's queue: the calling thread goes on at once.
 */
#include <pybind11/stl.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "binding/attribute_variants.h"
#include "binding/python_call.h"
#include "binding/torch_abi.h"
#include "binding/torch_npu_queue.h"

namespace ms_ascend_ops::binding {
namespace {

using torch_abi::TensorHandle;

constexpr size_t MOST_FORMS = 4096;  // remembered for one operator

py::object Owned(PyObject* object)
{
    if (object == nullptr) {
        throw py::error_already_set();
    }
    return py::reinterpret_steal<py::object>(object);
}

// Holds what is needed of PyTorch and torch_npu.
class Npu {
public:
    // Returns nothing where one of them has other functions. `toHandle` and `toTensors` are those of torch._C._aoti.
    static std::shared_ptr<Npu> Find(const std::string& torch, const std::string& torchNpu, py::object toHandle,
                                     py::object toTensors, py::object currentDevice, py::object setDevice)
    {
        auto npu = std::make_shared<Npu>();
        npu->library_ = torch_abi::Loaded(torch.c_str());
        npu->abi = torch_abi::FindIn<torch_abi::TensorFunctions>(torch.c_str());
        npu->queue = Queue::Find(torchNpu.c_str());
        if (npu->abi == nullptr || npu->queue == nullptr) {
            return nullptr;
        }
        npu->deviceType = npu->Constant("aoti_torch_device_type_privateuse1");
        npu->byteType = npu->DType("uint8");
        npu->toHandle_ = std::move(toHandle);
        npu->toTensors_ = std::move(toTensors);
        npu->currentDevice = std::move(currentDevice);
        npu->setDevice = std::move(setDevice);
        return npu;
    }

    int32_t DType(const std::string& name) const { return Constant("aoti_torch_dtype_" + name); }

    // The capsules of these functions hold the handle, and do not own it.
    TensorHandle HandleOf(PyObject* tensor) const
    {
        const py::object capsule = Owned(PyObject_CallOneArg(toHandle_.ptr(), tensor));
        void* const handle = PyCapsule_GetPointer(capsule.ptr(), nullptr);
        if (handle == nullptr) {
            throw py::error_already_set();
        }
        return TensorHandle(*abi, static_cast<torch_abi::Handle>(handle));
    }

    // Returns one tensor, or a tuple of several.
    py::object TensorsOf(std::vector<TensorHandle> handles) const
    {
        py::list capsules(handles.size());
        for (size_t i = 0; i < handles.size(); ++i) {
            capsules[i] = py::capsule(static_cast<const void*>(handles[i].Get()));
        }
        const py::object tensors = Owned(PyObject_CallOneArg(toTensors_.ptr(), capsules.ptr()));
        for (TensorHandle& handle : handles) {
            handle.Release();  // that function has deleted it
        }
        return handles.size() == 1 ? py::object(tensors[py::int_(0)]) : py::tuple(tensors);
    }

    std::unique_ptr<torch_abi::TensorFunctions> abi;
    std::shared_ptr<Queue> queue;
    py::object currentDevice;
    py::object setDevice;
    int32_t deviceType = 0;
    int32_t byteType = 0;

private:
    int32_t Constant(const std::string& name) const
    {
        int32_t (*function)() = nullptr;
        if (!torch_abi::Find(library_, function, name.c_str())) {
            throw std::runtime_error("PyTorch has no function " + name);
        }
        return function();
    }

    void* library_ = nullptr;
    py::object toHandle_;
    py::object toTensors_;
};

// Tensors of a call, none where one is absent.
using Handles = std::vector<std::optional<TensorHandle>>;

// Holds what calls with the same attributes and forms of tensors have in common.
class Form {
public:
    Form(std::shared_ptr<Npu> npu, std::shared_ptr<QueuedLaunch> launch, int device,
         const std::vector<std::string>& dtypes, std::vector<int64_t> layouts)
        : npu_(std::move(npu)), launch_(std::move(launch)), device_(device), layouts_(std::move(layouts))
    {
        std::transform(dtypes.begin(), dtypes.end(), std::back_inserter(dtypes_),
                       [this](const std::string& name) { return npu_->DType(name); });
    }

    const std::shared_ptr<Npu>& Library() const { return npu_; }

    // Returns the results, or none where other code has to say what is wrong with the call.
    std::optional<std::vector<TensorHandle>> Launch(const Handles& tensors) const
    {
        const OnDevice here(*npu_, device_);
        const py::gil_scoped_release release;  // the queue may be full
        std::vector<void*> addresses(launch_->tensors.size(), nullptr);
        for (size_t i = 0; i < tensors.size(); ++i) {
            // Others than those of several dims have no layout of CANN's.
            if (tensors[i] && ((launch_->tensors[i]->sizes.size() > 1 && !IsPlain(*tensors[i])) ||
                               npu_->abi->aoti_torch_get_data_ptr(tensors[i]->Get(), &addresses[i]) != 0)) {
                return std::nullopt;
            }
        }
        std::vector<TensorHandle> results;
        for (size_t i = 0; i < dtypes_.size(); ++i) {
            const Description& form = *launch_->tensors[launch_->inputs + i];
            results.emplace_back(*npu_->abi);
            if (!Empty(form.sizes, form.strides, dtypes_[i], results.back(), addresses[launch_->inputs + i])) {
                return std::nullopt;
            }
        }
        // It may go at the end of this function: later work of the stream, which may get that memory, is queued later.
        TensorHandle workspace(*npu_->abi);
        void* space = nullptr;
        if (launch_->workspaceBytes > 0 &&
            !Empty({static_cast<int64_t>(launch_->workspaceBytes)}, {1}, npu_->byteType, workspace, space)) {
            return std::nullopt;
        }
        Put(std::move(addresses), space);
        return results;
    }

private:
    // torch_npu takes the queue of the device that is current.
    class OnDevice {
    public:
        OnDevice(const Npu& npu, int index)
            : npu_(npu), before_(py::cast<int>(Owned(PyObject_CallNoArgs(npu.currentDevice.ptr())))), index_(index)
        {
            if (before_ != index_) {
                npu_.setDevice(index_);
            }
        }
        ~OnDevice()
        {
            if (before_ != index_) {
                const py::error_scope keep;  // an error that is on its way
                try {
                    npu_.setDevice(before_);
                } catch (const py::error_already_set&) {
                    // There is nobody to tell: the device was current before.
                }
            }
        }
        OnDevice(const OnDevice&) = delete;
        OnDevice& operator=(const OnDevice&) = delete;

    private:
        const Npu& npu_;
        int before_;
        int index_;
    };

    bool IsPlain(const TensorHandle& tensor) const
    {
        return std::find(layouts_.begin(), layouts_.end(), npu_->queue->layoutOf(tensor.Get())) != layouts_.end();
    }

    bool Empty(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, int32_t dtype,
               TensorHandle& made, void*& address) const
    {
        const torch_abi::TensorFunctions& abi = *npu_->abi;
        return abi.aoti_torch_empty_strided(static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(), dtype,
                                            npu_->deviceType, device_, made.Address()) == 0 &&
               abi.aoti_torch_get_data_ptr(made.Get(), &address) == 0;
    }

    void Put(std::vector<void*> addresses, void* workspace) const
    {
        const Queue::Stream stream = npu_->queue->current(static_cast<int8_t>(device_));
        struct Pending {
            std::shared_ptr<const QueuedLaunch> launch;
            std::vector<void*> addresses;
            void* workspace;
            void* stream;
        };
        auto pending = std::make_shared<const Pending>(
            Pending{launch_, std::move(addresses), workspace, npu_->queue->handle(&stream, false)});
        npu_->queue->put(
            launch_->name,
            [pending] { return pending->launch->Run(pending->addresses, pending->workspace, pending->stream); }, false);
    }

    std::shared_ptr<Npu> npu_;
    std::shared_ptr<QueuedLaunch> launch_;
    int device_;
    std::vector<int32_t> dtypes_;  // of the results
    std::vector<int64_t> layouts_;
};

class NpuCall {
public:
    NpuCall(size_t count, py::object run, py::object prepare)
        : count_(count), run_(std::move(run)), prepare_(std::move(prepare))
    {}

    // Tensors, then attributes, in the definition's order; those at the end may be left out.
    py::object Call(PyObject* const* arguments, size_t count)
    {
        const size_t tensors = std::min(count, count_);
        const size_t variant = variants_.Find(arguments + tensors, count - tensors);
        if (variant == AttributeVariants::MOST) {
            return Run(run_, arguments, count);
        }
        std::optional<std::vector<int64_t>> key;
        if (npu_ != nullptr) {
            const Handles handles = HandlesOf(arguments, tensors);
            key = KeyOf(variant, handles);
            const auto found = key ? forms_.find(*key) : forms_.end();
            if (found != forms_.end()) {
                const std::shared_ptr<Form> form = found->second;  // another thread may forget it
                if (auto results = form->Launch(handles)) {
                    return npu_->TensorsOf(std::move(*results));
                }
            }
        }
        py::object results = Run(run_, arguments, count);  // it checks everything
        if (results.ptr() != Py_NotImplemented) {
            Remember(arguments, count, variant);
        }
        return results;
    }

private:
    struct Hash {
        size_t operator()(const std::vector<int64_t>& key) const
        {
            return std::hash<std::string_view>()(
                {reinterpret_cast<const char*>(key.data()), key.size() * sizeof(int64_t)});
        }
    };

    static py::object Run(const py::object& function, PyObject* const* arguments, size_t count)
    {
        return Owned(PyObject_Vectorcall(function.ptr(), arguments, count, nullptr));
    }

    void Remember(PyObject* const* arguments, size_t count, size_t variant)
    {
        const py::object made = Run(prepare_, arguments, count);
        if (made.is_none()) {
            return;
        }
        const auto form = py::cast<std::shared_ptr<Form>>(made);
        npu_ = form->Library();
        auto key = KeyOf(variant, HandlesOf(arguments, std::min(count, count_)));
        if (key) {
            if (forms_.size() >= MOST_FORMS) {
                forms_.clear();
            }
            forms_[std::move(*key)] = form;
        }
    }

    Handles HandlesOf(PyObject* const* tensors, size_t count) const
    {
        Handles handles(count);
        for (size_t i = 0; i < count; ++i) {
            if (tensors[i] != Py_None) {
                handles[i].emplace(npu_->HandleOf(tensors[i]));
            }
        }
        return handles;
    }

    // Returns nothing where PyTorch cannot tell, as of sizes that are symbols.
    std::optional<std::vector<int64_t>> KeyOf(size_t variant, const Handles& tensors) const
    {
        const torch_abi::TensorFunctions& abi = *npu_->abi;
        std::vector<int64_t> key{static_cast<int64_t>(variant)};
        for (const std::optional<TensorHandle>& tensor : tensors) {
            if (!tensor) {
                key.push_back(-1);
                continue;
            }
            int64_t rank = 0;
            int32_t dtype = 0;
            int32_t type = 0;
            int32_t index = 0;
            int64_t* sizes = nullptr;
            int64_t* strides = nullptr;
            if (abi.aoti_torch_get_dim(tensor->Get(), &rank) != 0 ||
                abi.aoti_torch_get_dtype(tensor->Get(), &dtype) != 0 ||
                abi.aoti_torch_get_device_type(tensor->Get(), &type) != 0 ||
                abi.aoti_torch_get_device_index(tensor->Get(), &index) != 0 ||
                abi.aoti_torch_get_sizes(tensor->Get(), &sizes) != 0 ||
                abi.aoti_torch_get_strides(tensor->Get(), &strides) != 0) {
                return std::nullopt;
            }
            key.insert(key.end(), {rank, dtype, type, index});
            key.insert(key.end(), sizes, sizes + rank);
            key.insert(key.end(), strides, strides + rank);
        }
        return key;
    }

    size_t count_;        // of all inputs
    py::object run_;      // the same for any tensor, with every check
    py::object prepare_;  // after that has run: a Form, or None
    AttributeVariants variants_;
    std::shared_ptr<Npu> npu_;  // null until there is a form
    std::unordered_map<std::vector<int64_t>, std::shared_ptr<Form>, Hash> forms_;
};

using Given = std::vector<std::optional<std::tuple<int32_t, PyShape, PyShape, int64_t>>>;

std::shared_ptr<QueuedLaunch> MakeLaunch(const std::string& name, const std::vector<uintptr_t>& functions,
                                         const Given& tensors, size_t inputs, const py::tuple& attributes,
                                         uint64_t workspaceBytes, int32_t layout)
{
    auto made = std::make_shared<QueuedLaunch>();
    const auto find = [&functions](auto& function, size_t i) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(functions.at(i));
    };
    made->name = name;
    find(made->functions.createTensor, 0);
    find(made->functions.destroyTensor, 1);
    find(made->functions.prepare, 2);
    find(made->functions.getWorkspaceSize, 3);
    find(made->functions.launch, 4);
    for (const auto& tensor : tensors) {
        made->tensors.emplace_back();
        if (tensor) {
            const auto& [dtype, sizes, strides, reach] = *tensor;
            made->tensors.back() = Description{dtype, sizes, strides, reach};
        }
    }
    made->inputs = inputs;
    for (const py::handle value : attributes) {
        const bool isReal = py::isinstance<py::float_>(value);
        made->attributes.emplace_back(isReal, isReal ? made->reals.size() : made->integers.size());
        if (isReal) {
            made->reals.push_back(value.cast<double>());
        } else {
            made->integers.push_back(value.cast<int64_t>());
        }
    }
    made->workspaceBytes = workspaceBytes;
    made->layout = layout;
    return made;
}

}  // namespace

void BindTorchNpuCall(py::module_& module)
{
    py::class_<QueuedLaunch, std::shared_ptr<QueuedLaunch>>(
        module, "QueuedLaunch",
        "A call of an aclnn function, but for the addresses of its tensors.\n\n"
        "`functions`: the addresses of aclCreateTensor, aclDestroyTensor, the generated function that calls "
        "aclnnXGetWorkspaceSize, that, and aclnnX. `tensors`: dtype, sizes, strides and reach of inputs, then outputs.")
        .def(py::init(&MakeLaunch), py::arg("name"), py::arg("functions"), py::arg("tensors"), py::arg("inputs"),
             py::arg("attributes"), py::arg("workspace_bytes"), py::arg("layout"));
    py::class_<Npu, std::shared_ptr<Npu>>(module, "Npu", "What is needed of PyTorch and torch_npu.")
        .def_static("find", &Npu::Find, py::arg("torch"), py::arg("torch_npu"), py::arg("to_handle"),
                    py::arg("to_tensors"), py::arg("current_device"), py::arg("set_device"),
                    "Those of two libraries that are loaded, or None where one has other functions.\n\n"
                    "`to_handle` makes a capsule of a tensor, `to_tensors` a list of tensors of such capsules, whose "
                    "handles it deletes.");
    py::class_<Form, std::shared_ptr<Form>>(
        module, "NpuForm", "A launch on a device, the dtypes of its results, and layouts that it can read.")
        .def(py::init<std::shared_ptr<Npu>, std::shared_ptr<QueuedLaunch>, int, const std::vector<std::string>&,
                      std::vector<int64_t>>(),
             py::arg("npu"), py::arg("launch"), py::arg("device"), py::arg("dtypes"), py::arg("layouts"));
    module.def(
        "npu_call",
        [](size_t count, py::object run, py::object prepare) {
            return FunctionOf(std::make_unique<NpuCall>(count, std::move(run), std::move(prepare)), "npu_call",
                              "Run the operator on tensors of torch_npu.");
        },
        py::arg("count"), py::arg("run"), py::arg("prepare"),
        "An operator as a function of torch_npu's tensors and attributes.\n\n"
        "`run` is the first call with tensors of these forms; `prepare` gives, behind that, the NpuForm of further "
        "ones, or None.");
}

}  // namespace ms_ascend_ops::binding
