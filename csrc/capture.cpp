#include "capture.h"

#include "device_state.h"
#include "errors.h"

namespace tiny::glue {
namespace {

c10::StorageImpl* storage_impl(const at::Tensor& t) { return t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(); }

/// Those of real types are read as they are, others as integers of their size.
DType storage_dtype(const at::Tensor& t) { return geometry(*t.unsafeGetTensorImpl()).dtype; }

int64_t elements(size_t nbytes, DType d) { return (static_cast<int64_t>(nbytes) + itemsize(d) - 1) / itemsize(d); }

/// All of a storage's value.
tiny::Tensor whole(Storage& s, size_t nbytes, DType d) {
  const Dims all{elements(nbytes, d)}, one{1};
  return s.read(d, all, one, 0);
}

TensorSpec spec_of(const at::Tensor& t, int storage) {
  TensorSpec s;
  if (!t.defined()) return s;
  s.dtype = t.scalar_type();
  s.sizes.append(t.sizes().begin(), t.sizes().end());
  s.strides.append(t.strides().begin(), t.strides().end());
  s.offset = t.storage_offset(), s.storage = storage, s.conj = t.is_conj(), s.neg = t.is_neg();
  return s;
}

at::Tensor tensor_over(c10::Storage storage, const TensorSpec& s) {
  at::Tensor t = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                                          c10::scalarTypeToTypeMeta(s.dtype));
  t.unsafeGetTensorImpl()->set_sizes_and_strides(s.sizes, s.strides, s.offset);
  if (s.conj) t._set_conj(true);
  if (s.neg) t._set_neg(true);
  return t;
}

bool has_strides(const at::Tensor& t) { return is_tiny(t) && t.layout() == c10::Layout::Strided && is_ours(*storage_impl(t)); }

}  // namespace

bool CapturedGraph::matches(c10::ArrayRef<at::Tensor> inputs) const {
  if (inputs.size() != inputs_.size()) return false;
  for (size_t k = 0; k < inputs.size(); ++k) {
    const at::Tensor& t = inputs[k];
    const TensorSpec& s = inputs_[k];
    if (!t.defined() || !has_strides(t) || t.device().index() != index_ || t.scalar_type() != s.dtype || t.sizes() != s.sizes ||
        t.strides() != s.strides || t.storage_offset() != s.offset || t.is_conj() != s.conj || t.is_neg() != s.neg)
      return false;
    const StorageSpec& storage = storages_[static_cast<size_t>(s.storage)];
    if (storage_impl(t)->nbytes() != storage.nbytes) return false;
    if (storage_impl(t) != storage_impl(inputs[static_cast<size_t>(storage.input)])) return false;
  }
  for (size_t a = 0; a < input_storages_; ++a)  // storages that were apart still are
    for (size_t b = 0; b < a; ++b)
      if (storage_impl(inputs[static_cast<size_t>(storages_[a].input)]) == storage_impl(inputs[static_cast<size_t>(storages_[b].input)]))
        return false;
  return true;
}

std::vector<at::Tensor> CapturedGraph::run(c10::ArrayRef<at::Tensor> inputs) const {
  std::vector<c10::Storage> storages;
  for (const StorageSpec& s : storages_)
    storages.push_back(s.input >= 0 ? inputs[static_cast<size_t>(s.input)].storage() : c10::Storage(make_storage(index_, s.nbytes)));
  std::vector<at::Tensor> outputs;
  for (const TensorSpec& s : outputs_)
    outputs.push_back(s.storage < 0 ? at::Tensor() : tensor_over(storages[static_cast<size_t>(s.storage)], s));
  std::vector<uint64_t> numbers;
  for (int64_t n : draws_) {
    const Draw d = draw(default_generator(index_), n);
    numbers.push_back(d.seed), numbers.push_back(d.offset);
  }
  guarded([&] {
    GraphLock lock;
    std::vector<tiny::Tensor> values;
    std::vector<UOp*> nodes;
    for (size_t k = 0; k < input_storages_; ++k) {
      values.push_back(whole(storage_of(*storages[k].unsafeGetStorageImpl()), storages_[k].nbytes, storages_[k].dtype));
      nodes.push_back(values.back().node());
    }
    const std::vector<Ref> results = trace_.replay(nodes, numbers);
    for (size_t k = 0; k < storages_.size(); ++k) {
      if (storages_[k].result < 0) continue;
      const Ref& value = results[static_cast<size_t>(storages_[k].result)];
      const Dims all{value->numel}, one{1};
      storage_of(*storages[k].unsafeGetStorageImpl()).write(all, one, 0, tiny::Tensor(value, all));
    }
  });
  for (size_t k = 0; k < input_storages_; ++k)
    if (storages_[k].result >= 0) inputs[static_cast<size_t>(storages_[k].input)].unsafeGetTensorImpl()->bump_version();
  after_operator(device(index_));
  return outputs;
}

Capture::Capture(std::vector<at::Tensor> inputs) {
  CapturedGraph& g = *graph_;
  for (const at::Tensor& t : inputs) TORCH_CHECK_NOT_IMPLEMENTED(has_strides(t), "a function with an input outside of the device");
  g.index_ = inputs.empty() ? current_device() : inputs[0].device().index();
  for (const at::Tensor& t : inputs)
    TORCH_CHECK_NOT_IMPLEMENTED(t.device().index() == g.index_, "a function with inputs on several devices");
  guarded([&] { Engine::of(device(g.index_)).flush("compile"); });
  generator_offset_ = draw(default_generator(g.index_), 0).offset;
  for (size_t k = 0; k < inputs.size(); ++k) g.inputs_.push_back(spec_of(inputs[k], storage_number(inputs[k], inputs)));
  g.input_storages_ = g.storages_.size();

  std::vector<c10::Storage> stands;
  guarded([&] {
    GraphLock lock;
    for (const auto& s : g.storages_) {
      Storage& real = storage_of(*storage_impl(inputs[static_cast<size_t>(s.input)]));
      const tiny::Tensor value = whole(real, s.nbytes, s.dtype);
      // A node that no other storage has, over the same memory: whoever keeps a tensor made of it still gets what it says.
      const Ref node = value.node()->is(Op::BUFFER) ? make_buffer_node(value.node()->arg.buf, value.dtype(), value.numel())
                                                    : make_node(Op::EMPTY, value.dtype(), value.numel(), {}, {});
      placeholders_.push_back(node);
      stands.push_back(c10::Storage(make_storage(g.index_, s.nbytes)));
      const Dims all{value.numel()}, one{1};
      Storage& stand = storage_of(*stands.back().unsafeGetStorageImpl());
      if (s.nbytes) stand.write(all, one, 0, tiny::Tensor(node, all));
      initial_.push_back(whole(stand, s.nbytes, s.dtype).ref());  // a copy of the node where the memory's address was given away
    }
  });
  for (const TensorSpec& s : g.inputs_) stand_ins_.push_back(tensor_over(stands[static_cast<size_t>(s.storage)], s));
  only_.emplace();
  log_.emplace();
}

Capture::~Capture() {
  if (!only_) return;
  only_.reset(), log_.reset();
  at::Generator generator = default_generator(graph_->index_);
  std::lock_guard lock(generator.mutex());
  generator.unsafeGetGeneratorImpl()->set_offset(generator_offset_);
}

/// The number of an input's storage; a new one for the first input that lies in it.
int Capture::storage_number(const at::Tensor& t, const std::vector<at::Tensor>& inputs) {
  auto& storages = graph_->storages_;
  for (size_t n = 0; n < storages.size(); ++n)
    if (storage_impl(inputs[static_cast<size_t>(storages[n].input)]) == storage_impl(t)) return static_cast<int>(n);
  storages.push_back({storage_impl(t)->nbytes(), storage_dtype(t), static_cast<int>(graph_->inputs_.size()), -1});
  return static_cast<int>(storages.size()) - 1;
}

std::shared_ptr<CapturedGraph> Capture::finish(c10::ArrayRef<at::Tensor> outputs) {
  CapturedGraph& g = *graph_;
  std::vector<c10::StorageImpl*> storages;  // by number
  for (const auto& s : g.storages_) storages.push_back(storage_impl(stand_ins_[static_cast<size_t>(s.input)]));
  for (const at::Tensor& t : outputs) {
    if (!t.defined()) {
      g.outputs_.emplace_back();
      continue;
    }
    if (!has_strides(t) || t.device().index() != g.index_) return nullptr;
    auto at = std::find(storages.begin(), storages.end(), storage_impl(t));
    if (at == storages.end()) {
      g.storages_.push_back({storage_impl(t)->nbytes(), storage_dtype(t), -1, -1});
      storages.push_back(storage_impl(t));
      at = storages.end() - 1;
    }
    g.outputs_.push_back(spec_of(t, static_cast<int>(at - storages.begin())));
  }
  guarded([&] {
    GraphLock lock;
    std::vector<Ref> results;
    for (size_t k = 0; k < storages.size(); ++k) {
      if (g.storages_[k].nbytes == 0) continue;
      const Ref value = whole(storage_of(*storages[k]), g.storages_[k].nbytes, g.storages_[k].dtype).ref();
      if (k < initial_.size() && value.get() == initial_[k].get()) continue;
      g.storages_[k].result = static_cast<int>(results.size());
      results.push_back(value);
    }
    g.trace_ = Trace(placeholders_, log_->numbers, results);
    placeholders_.clear(), initial_.clear();
    g.draws_ = log_->counts;
  });
  return graph_;
}

}  // namespace tiny::glue
