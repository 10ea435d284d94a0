/*!
 * Calls of aclnn functions on torch_npu's tensors from torch_npu's queue: the calling thread goes on at once.
 */
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>
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

namespace ms_ascend_ops::binding {
namespace {

constexpr size_t MOST_FORMS = 4096;  // that are remembered for one operator
constexpr int WORKSPACE_GREW = -1;   // a status of ours, in the place of one of CANN's

// Of torch_npu's C++, declared without its headers: what its guide to operators of one's own uses, found in the library
// that the process has loaded (torch_npu/csrc/core/npu/NPUStream.h, torch_npu/csrc/framework/OpCommand.h).
struct Queue {
    // NPUStream: a device (its kind, then its number) and an id. As that has a destructor of its own, so has this: it
    // decides how a result is returned: into memory of the caller, which has room for more than is there today.
    struct Stream {
        ~Stream() {}
        std::array<int8_t, 2> device;
        int64_t id;
        std::array<int64_t, 6> room;
    };

    Stream (*current)(int8_t device);
    void* (*handle)(const Stream* stream, bool waits);
    void (*put)(const std::string& name, const std::function<int()>& function, bool waits);

    // Null where this release of torch_npu has other functions.
    static std::shared_ptr<Queue> Find(const std::string& library)
    {
        void* const loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD);
        if (loaded == nullptr) {
            return nullptr;
        }
        auto found = std::make_shared<Queue>();
        const auto find = [loaded](auto& function, const char* symbol) {
            function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(loaded, symbol));
            return function != nullptr;
        };
        const bool all = find(found->current, "_ZN7c10_npu19getCurrentNPUStreamEa") &&
                         find(found->handle, "_ZNK7c10_npu9NPUStream6streamEb") &&
                         find(found->put,
                              "_ZN6at_npu6native9OpCommand10RunOpApiV2ERKNSt7__cxx1112basic_stringIcSt11char_traitsIcE"
                              "SaIcEEERKSt8functionIFivEEb");
        return all ? found : nullptr;
    }
};

// Functions of CANN and of the package, by their addresses.
struct Functions {
    void* (*createTensor)(const int64_t*, uint64_t, int32_t, const int64_t*, int64_t, int32_t, const int64_t*, uint64_t,
                          void*);
    int32_t (*destroyTensor)(const void*);
    // A generated function of the kernel library, which calls the one behind it (codegen/host.py).
    int (*prepare)(void*, std::vector<void*>, std::vector<void*>, uint64_t*, void**);
    void* getWorkspaceSize;
    int (*launch)(void*, uint64_t, void*, void*);
};

struct Description {
    int32_t dtype;
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;
    int64_t reach;  // as much of the memory as the tensor reaches, in elements
};

// A call for tensors of given forms, but for their addresses. Nothing of it is Python's: torch_npu's thread runs it.
struct QueuedLaunch {
    std::string name;
    Functions functions;
    std::vector<std::optional<Description>> tensors;  // inputs, then outputs; none where one is absent
    size_t inputs;
    std::vector<int64_t> integers;
    std::vector<double> reals;
    std::vector<std::pair<bool, size_t>> attributes;  // whether it is real, and where it stands
    uint64_t workspaceBytes;
    int32_t layout;

    int Run(const std::vector<void*>& addresses, void* workspace, void* stream) const
    {
        std::vector<void*> given;
        std::vector<void*> results;
        struct Owner {
            const QueuedLaunch& launch;
            std::vector<void*> made{};
            ~Owner()
            {
                for (const void* tensor : made) {
                    launch.functions.destroyTensor(tensor);
                }
            }
        } owner{*this};
        for (size_t i = 0; i < tensors.size(); ++i) {
            void* made = nullptr;
            if (tensors[i]) {
                const Description& form = *tensors[i];
                made = functions.createTensor(form.sizes.data(), form.sizes.size(), form.dtype, form.strides.data(), 0,
                                              layout, &form.reach, 1, addresses[i]);
                owner.made.push_back(made);
            }
            (i < inputs ? given : results).push_back(made);
        }
        for (const auto& [isReal, place] : attributes) {
            given.push_back(isReal ? static_cast<void*>(const_cast<double*>(&reals[place]))
                                   : static_cast<void*>(const_cast<int64_t*>(&integers[place])));
        }
        uint64_t bytes = 0;
        void* executor = nullptr;
        const int prepared =
            functions.prepare(functions.getWorkspaceSize, std::move(given), std::move(results), &bytes, &executor);
        if (prepared != 0) {
            return prepared;
        }
        if (bytes > workspaceBytes) {
            std::fprintf(stderr, "ms_ascend_ops: %s: CANN asks for a workspace of %llu bytes, at first it was %llu\n",
                         name.c_str(), static_cast<unsigned long long>(bytes),
                         static_cast<unsigned long long>(workspaceBytes));
            return WORKSPACE_GREW;
        }
        return functions.launch(workspace, bytes, executor, stream);
    }
};

// Of a tensor.
struct Names {
    py::str shape = "shape";
    py::str stride = "stride";
    py::str dtype = "dtype";
    py::str device = "device";
    py::str newEmpty = "new_empty";
    py::str dataPtr = "data_ptr";
    py::tuple keywords = py::make_tuple("dtype");
};

// Python's functions of torch_npu.
struct Npu {
    py::object layoutOf;
    py::object currentDevice;
    py::object setDevice;
    py::object byteType;
    Names names{};
};

py::object Owned(PyObject* object)
{
    if (object == nullptr) {
        throw py::error_already_set();
    }
    return py::reinterpret_steal<py::object>(object);
}

// What calls with the same attributes and forms of tensors have in common.
class Form {
public:
    using Results = std::vector<std::pair<py::object, py::object>>;  // sizes and dtype

    Form(std::shared_ptr<Npu> npu, std::shared_ptr<Queue> queue, std::shared_ptr<QueuedLaunch> launch,
         py::object device, Results results, std::vector<int> layouts)
        : npu_(std::move(npu)),
          queue_(std::move(queue)),
          launch_(std::move(launch)),
          device_(std::move(device)),
          index_(py::cast<int>(device_.attr("index"))),
          results_(std::move(results)),
          layouts_(std::move(layouts))
    {}

    // Whether the tensors are on its device, and their elements lie as PyTorch says.
    bool Fits(PyObject* const* tensors, size_t count) const
    {
        for (size_t i = 0; i < count; ++i) {
            if (tensors[i] == Py_None) {
                continue;
            }
            if (!Owned(PyObject_GetAttr(tensors[i], npu_->names.device.ptr())).equal(device_)) {
                return false;
            }
            if (launch_->tensors[i]->sizes.size() > 1 && !IsPlain(tensors[i])) {
                return false;
            }
        }
        return true;
    }

    py::object Launch(PyObject* const* tensors, size_t count) const
    {
        const OnDevice here(*npu_, index_);
        std::vector<void*> addresses(launch_->tensors.size(), nullptr);
        PyObject* first = nullptr;
        for (size_t i = 0; i < count; ++i) {
            if (tensors[i] != Py_None) {
                addresses[i] = Address(tensors[i]);
                first = first == nullptr ? tensors[i] : first;
            }
        }
        py::tuple results(results_.size());
        for (size_t i = 0; i < results_.size(); ++i) {
            py::object made = Empty(first, results_[i].first, results_[i].second);
            addresses[launch_->inputs + i] = Address(made.ptr());
            results[i] = std::move(made);
        }
        // It may go at the end of this function: later work of the stream, which may get that memory, is queued later.
        py::object workspace;
        if (launch_->workspaceBytes > 0) {
            workspace = Empty(first, py::int_(launch_->workspaceBytes), npu_->byteType);
        }
        Put(std::move(addresses), workspace ? Address(workspace.ptr()) : nullptr);
        return results.size() > 1 ? py::object(std::move(results)) : py::object(results[0]);
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

    bool IsPlain(PyObject* tensor) const
    {
        const int layout = py::cast<int>(Owned(PyObject_CallOneArg(npu_->layoutOf.ptr(), tensor)));
        return std::find(layouts_.begin(), layouts_.end(), layout) != layouts_.end();
    }

    void* Address(PyObject* tensor) const
    {
        const py::object number = Owned(PyObject_CallMethodNoArgs(tensor, npu_->names.dataPtr.ptr()));
        void* const address = PyLong_AsVoidPtr(number.ptr());
        if (address == nullptr && PyErr_Occurred() != nullptr) {
            throw py::error_already_set();
        }
        return address;
    }

    py::object Empty(PyObject* like, const py::object& sizes, const py::object& dtype) const
    {
        const std::array<PyObject*, 3> arguments{like, sizes.ptr(), dtype.ptr()};
        return Owned(
            PyObject_VectorcallMethod(npu_->names.newEmpty.ptr(), arguments.data(), 2, npu_->names.keywords.ptr()));
    }

    void Put(std::vector<void*> addresses, void* workspace) const
    {
        const py::gil_scoped_release release;  // the queue may be full
        const Queue::Stream stream = queue_->current(static_cast<int8_t>(index_));
        struct Pending {
            std::shared_ptr<const QueuedLaunch> launch;
            std::vector<void*> addresses;
            void* workspace;
            void* stream;
        };
        auto pending = std::make_shared<const Pending>(
            Pending{launch_, std::move(addresses), workspace, queue_->handle(&stream, false)});
        queue_->put(
            launch_->name,
            [pending] { return pending->launch->Run(pending->addresses, pending->workspace, pending->stream); }, false);
    }

    std::shared_ptr<Npu> npu_;
    std::shared_ptr<Queue> queue_;
    std::shared_ptr<QueuedLaunch> launch_;
    py::object device_;
    int index_;
    Results results_;
    std::vector<int> layouts_;
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
        std::vector<int64_t> key{static_cast<int64_t>(variant)};
        for (size_t i = 0; i < tensors; ++i) {
            Append(key, arguments[i]);
        }
        const auto found = forms_.find(key);
        if (found != forms_.end()) {
            const std::shared_ptr<Form> form = found->second;  // another thread may forget it
            if (form->Fits(arguments, tensors)) {
                return form->Launch(arguments, tensors);
            }
        }
        py::object results = Run(run_, arguments, count);  // which checks everything
        if (results.ptr() != Py_NotImplemented) {
            const py::object form = Run(prepare_, arguments, count);
            if (!form.is_none()) {
                if (forms_.size() >= MOST_FORMS) {
                    forms_.clear();
                }
                forms_[std::move(key)] = py::cast<std::shared_ptr<Form>>(form);
            }
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

    void Append(std::vector<int64_t>& key, PyObject* tensor) const
    {
        if (tensor == Py_None) {
            key.push_back(-1);
            return;
        }
        // There is one object of a dtype.
        key.push_back(reinterpret_cast<int64_t>(Owned(PyObject_GetAttr(tensor, names_.dtype.ptr())).ptr()));
        const py::object device = Owned(PyObject_GetAttr(tensor, names_.device.ptr()));
        key.push_back(PyObject_Hash(device.ptr()));
        const py::object sizes = Owned(PyObject_GetAttr(tensor, names_.shape.ptr()));
        const py::object strides = Owned(PyObject_CallMethodNoArgs(tensor, names_.stride.ptr()));
        key.push_back(PyTuple_GET_SIZE(sizes.ptr()));
        for (const py::object& numbers : {sizes, strides}) {
            for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(numbers.ptr()); ++i) {
                key.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(numbers.ptr(), i)));
            }
        }
        if (PyErr_Occurred() != nullptr) {
            throw py::error_already_set();
        }
    }

    Names names_;
    size_t count_;        // of all inputs
    py::object run_;      // the same for any tensor, with every check
    py::object prepare_;  // after that has run: a Form, or None
    AttributeVariants variants_;
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
    py::class_<Queue, std::shared_ptr<Queue>>(module, "NpuQueue", "torch_npu's queue of work for its streams.")
        .def_static("find", &Queue::Find, py::arg("library"),
                    "That of a library that is loaded, or None where it has other functions.");
    py::class_<QueuedLaunch, std::shared_ptr<QueuedLaunch>>(
        module, "QueuedLaunch",
        "A call of an aclnn function, but for the addresses of its tensors.\n\n"
        "`functions`: the addresses of aclCreateTensor, aclDestroyTensor, the generated function that calls "
        "aclnnXGetWorkspaceSize, that, and aclnnX. `tensors`: dtype, sizes, strides and reach of inputs, then outputs.")
        .def(py::init(&MakeLaunch), py::arg("name"), py::arg("functions"), py::arg("tensors"), py::arg("inputs"),
             py::arg("attributes"), py::arg("workspace_bytes"), py::arg("layout"));
    py::class_<Npu, std::shared_ptr<Npu>>(module, "Npu", "Functions of torch_npu, and the dtype of bytes.")
        .def(py::init([](py::object layoutOf, py::object currentDevice, py::object setDevice, py::object byteType) {
                 return std::make_shared<Npu>(
                     Npu{std::move(layoutOf), std::move(currentDevice), std::move(setDevice), std::move(byteType)});
             }),
             py::arg("layout_of"), py::arg("current_device"), py::arg("set_device"), py::arg("byte_type"));
    py::class_<Form, std::shared_ptr<Form>>(
        module, "NpuForm", "A launch with its device, the sizes and dtypes of its results, and layouts it can read.")
        .def(py::init<std::shared_ptr<Npu>, std::shared_ptr<Queue>, std::shared_ptr<QueuedLaunch>, py::object,
                      Form::Results, std::vector<int>>(),
             py::arg("npu"), py::arg("queue"), py::arg("launch"), py::arg("device"), py::arg("results"),
             py::arg("layouts"));
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
