// torch_tiny._C: what the Python package needs that PyTorch's own interfaces do not give.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/autograd/python_variable.h>

#include "api.h"
#include "base/interrupt.h"
#include "capture.h"
#include "device_state.h"
#include "errors.h"
#include "fallback.h"
#include "generator.h"
#include "gil.h"
#include "register.h"
#include "tables.h"
#include "tensor.h"
#include "where.h"

namespace py = pybind11;

namespace tiny::glue {
namespace {

/// For waiting threads: raises what Python's signal handlers raise, KeyboardInterrupt after Ctrl-C. Called without the GIL.
void check_python_signals() {
  if (!Py_IsInitialized()) return;
  python_error error;
  {
    py::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() == 0) return;
    error.persist();
  }
  throw error;
}

/// f() without the GIL; core errors become torch's, and what a signal handler raised goes on as it is.
template <class F>
auto without_gil(F&& f) {
  note_where();
  try {
    WithoutGil release;
    return guarded(f);
  } catch (python_error& error) {
    error.restore();
    throw py::error_already_set();
  }
}

/// f(device), without the GIL.
template <class F>
auto on_device(int index, F&& f) {
  return without_gil([&] {
    const auto i = checked_device(static_cast<c10::DeviceIndex>(index));
    mark_opened(i);
    return f(device(i));
  });
}

void flush_all(const char* cause) {
  without_gil([&] {
    for (int i = 0; i < count_devices(); ++i)
      if (device_opened(static_cast<c10::DeviceIndex>(i))) Engine::of(device(i)).flush(cause);
  });
}

py::dict flush_record(const FlushRecord& r) {
  py::dict d;
  d["cause"] = r.cause, d["where"] = r.where, d["hit"] = r.hit, d["miss_reason"] = r.miss_reason;
  d["nodes"] = r.nodes, d["kernels"] = r.kernels, d["compiled"] = r.compiled, d["bytes"] = r.bytes, d["flops"] = r.flops;
  d["arena_bytes"] = r.arena_bytes, d["arena_bound"] = r.arena_bound;
  d["schedule_ms"] = r.schedule_ms, d["compile_ms"] = r.compile_ms, d["submit_ms"] = r.submit_ms;
  d["kernel_names"] = r.kernel_names ? *r.kernel_names : std::vector<std::string>();
  return d;
}

py::list history(int index) {
  const auto records = on_device(index, [](Device& d) { return Engine::of(d).history(); });
  py::list out;
  for (const FlushRecord& r : records) out.append(flush_record(r));
  return out;
}

py::dict engine_stats(int index) {
  const EngineStats s = on_device(index, [](Device& d) { return Engine::of(d).stats(); });
  py::dict d;
  d["flushes"] = s.flushes, d["hits"] = s.hits, d["misses"] = s.misses, d["kernels_run"] = s.kernels_run;
  d["kernels_compiled"] = s.kernels_compiled, d["nodes_scheduled"] = s.nodes_scheduled;
  return d;
}

py::dict memory_stats(int index) {
  const MemoryStats s = on_device(index, [](Device& d) { return d.memory_stats(); });
  py::dict d;
  d["allocated"] = s.allocated, d["reserved"] = s.reserved, d["peak_allocated"] = s.peak_allocated, d["peak_reserved"] = s.peak_reserved;
  d["allocations"] = s.allocations, d["frees"] = s.frees, d["total_allocated"] = s.total_allocated, d["total_freed"] = s.total_freed;
  d["ooms"] = s.ooms, d["retries"] = s.retries;
  return d;
}

py::tuple memory_info(int index) {
  size_t free_bytes = 0, total_bytes = 0;
  on_device(index, [&](Device& d) { d.memory_info(&free_bytes, &total_bytes); });
  return py::make_tuple(free_bytes, total_bytes);
}

bool host_visible(int index) { return on_device(index, [](Device& d) { return d.host_visible(); }); }

at::Tensor tensor_of(const py::handle& t) {
  TORCH_CHECK_TYPE(THPVariable_Check(t.ptr()), "expected a tensor");
  const at::Tensor tensor = THPVariable_Unpack(t.ptr());
  TORCH_CHECK_VALUE(is_tiny(tensor), "expected a tensor on a tiny device");
  return tensor;
}

/// Address of the tensor's first element, in memory that stays.
uint64_t pin(const py::handle& t) {
  const at::Tensor tensor = tensor_of(t);
  auto* base = static_cast<char*>(materialize(*tensor.storage().unsafeGetStorageImpl()));
  return tensor.numel() == 0 ? 0 : reinterpret_cast<uint64_t>(base + tensor.storage_offset() * tensor.itemsize());
}

/// A CPU tensor over the same memory, on devices in host memory. It keeps the tensor alive.
py::object host_alias(const py::handle& t) {
  const at::Tensor tensor = tensor_of(t);
  const uint64_t address = pin(t);
  if (tensor.numel() > 0) storage_of(tensor).share_with_host();
  const auto options = tensor.options().device(c10::kCPU);
  at::Tensor alias = tensor.numel() == 0 ? at::empty_strided(tensor.sizes(), tensor.strides(), options)
                                         : at::from_blob(reinterpret_cast<void*>(address), tensor.sizes(), tensor.strides(),
                                                         [keep = tensor.storage()](void*) {}, options);
  return py::reinterpret_steal<py::object>(THPVariable_Wrap(alias));
}

py::object default_generator_object(int index) {
  return py::reinterpret_steal<py::object>(THPGenerator_Wrap(default_generator(static_cast<c10::DeviceIndex>(index))));
}

/// The tensors of a list; None is an undefined one.
std::vector<at::Tensor> tensors_of(const py::list& list) {
  std::vector<at::Tensor> out;
  for (const py::handle& t : list) {
    TORCH_CHECK_TYPE(t.is_none() || THPVariable_Check(t.ptr()), "expected a list of tensors");
    out.push_back(t.is_none() ? at::Tensor() : THPVariable_Unpack(t.ptr()));
  }
  return out;
}

py::list list_of(const std::vector<at::Tensor>& tensors) {
  py::list out;
  for (const at::Tensor& t : tensors) out.append(t.defined() ? py::reinterpret_steal<py::object>(THPVariable_Wrap(t)) : py::none());
  return out;
}

/// The results, or None if the graph was not made for such inputs.
py::object run_graph(const CapturedGraph& graph, const py::list& inputs) {
  note_where();
  const std::vector<at::Tensor> given = tensors_of(inputs);
  if (!graph.matches(given)) return py::none();
  std::vector<at::Tensor> results;
  {
    WithoutGil release;
    results = graph.run(given);
  }
  return list_of(results);
}

void bind_capture(py::module_& m) {
  py::class_<CapturedGraph, std::shared_ptr<CapturedGraph>>(m, "CapturedGraph")
      .def("run", &run_graph)
      .def("nodes", &CapturedGraph::nodes);
  py::class_<Capture>(m, "Capture")
      .def(py::init([](const py::list& inputs) {
        std::vector<at::Tensor> given = tensors_of(inputs);
        WithoutGil release;
        return std::make_unique<Capture>(std::move(given));
      }))
      .def("stand_ins", [](const Capture& c) { return list_of(c.stand_ins()); })
      .def("finish", [](Capture& c, const py::list& outputs) { return c.finish(tensors_of(outputs)); });
}

PYBIND11_MODULE(_C, m) {
  install_where_hook();
  set_interrupt_check(&check_python_signals);
  m.doc() = "Native part of torch_tiny";
  m.def("device_count", [] { return static_cast<int>(count_devices()); });
  m.def("current_device", [] { return static_cast<int>(current_device()); });
  m.def("set_device", [](int i) { set_current_device(static_cast<c10::DeviceIndex>(i)); });
  m.def("exchange_device", [](int i) {
    const int old = current_device();
    if (i >= 0) set_current_device(static_cast<c10::DeviceIndex>(i));
    return old;
  });
  m.def("device_opened", [](int i) { return device_opened(static_cast<c10::DeviceIndex>(i)); });
  m.def("device_name", [](int i) { return on_device(i, [](Device& d) { return d.name(); }); });
  m.def("host_visible", &host_visible);
  m.def("pin", &pin);
  m.def("materialized", &materialized);
  m.def("host_alias", &host_alias);
  m.def("default_generator", &default_generator_object);
  m.def("synchronize", [](int i) { on_device(i, [](Device& d) { Engine::of(d).synchronize(); }); });
  m.def("flush", [](const std::string& cause) {
    static const std::string step = "step";
    flush_all(cause == step ? "step" : "flush");
  }, py::arg("cause") = "flush");
  m.def("history", &history);
  m.def("engine_stats", &engine_stats);
  m.def("memory_stats", &memory_stats);
  m.def("memory_info", &memory_info);
  m.def("empty_cache", [](int i) { on_device(i, [](Device& d) { drop_tables(d), d.empty_cache(); }); });
  m.def("reset_peak_stats", [](int i) { on_device(i, [](Device& d) { d.reset_peak_stats(); }); });
  m.def("set_memory_limit", [](int i, size_t bytes) { on_device(i, [&](Device& d) { d.set_memory_limit(bytes); }); });
  m.def("set_node_bound", [](int i, int64_t n) {
    on_device(i, [&](Device& d) {
      GraphLock lock;
      Engine::of(d).set_node_bound(n);
    });
  });
  m.def("live_nodes", [] {
    GraphLock lock;
    return live_nodes();
  });
  m.def("fallback_counts", &fallback_counts);
  m.def("fallback_policy", &fallback_policy);
  m.def("fallback_count", &fallback_count);
  m.def("reset_fallback_counts", &reset_fallback_counts);
  m.def("lowered_operators", &lowered_operators);
  m.def("table_problems", &table_problems);
  m.def("set_library_folders", &set_library_folders);
  bind_capture(m);
}

}  // namespace
}  // namespace tiny::glue
