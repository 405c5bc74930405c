// What torch.compile(backend="tiny") runs: a function whose graph was recorded once is put into the lazy graph again as a whole.
#pragma once
#include <memory>

#include "generator.h"
#include "tensor.h"

namespace tiny::glue {

/// How a tensor lies in one of the call's storages.
struct TensorSpec {
  c10::ScalarType dtype;
  c10::SmallVector<int64_t, 5> sizes, strides;
  int64_t offset = 0;
  int storage = -1;      // number of the storage; -1: no tensor
  bool conj = false, neg = false;
};

/// A function from tensors to tensors as a graph.
class CapturedGraph {
 public:
  /// Whether these inputs have the devices, dtypes, sizes, strides and shared storages of those that it was made for.
  bool matches(c10::ArrayRef<at::Tensor> inputs) const;
  /// The function's results for such inputs: lazy, as the results of any operator; nothing is computed here.
  std::vector<at::Tensor> run(c10::ArrayRef<at::Tensor> inputs) const;
  size_t nodes() const { return trace_.size(); }

 private:
  friend class Capture;
  struct StorageSpec {
    size_t nbytes;
    DType dtype;         // in which its value is read
    int input;           // the first input that lies in it; -1: a new storage
    int result;          // of the trace: what it holds afterwards; -1: it is not written
  };
  c10::DeviceIndex index_ = 0;
  Trace trace_;
  std::vector<int64_t> draws_;             // by draw of random numbers: how many
  std::vector<TensorSpec> inputs_, outputs_;
  std::vector<StorageSpec> storages_;      // those of inputs first
  size_t input_storages_ = 0;
};

/// Records what a function does. Between the constructor and finish() the thread records only; both are called on the same thread.
class Capture {
 public:
  /// Flushes what is pending.
  explicit Capture(std::vector<at::Tensor> inputs);
  ~Capture();
  /// Tensors on which the function has to be called in place of the inputs.
  const std::vector<at::Tensor>& stand_ins() const { return stand_ins_; }
  /// The graph of the function's results (undefined tensors stand for None); null if it has results outside of the device.
  std::shared_ptr<CapturedGraph> finish(c10::ArrayRef<at::Tensor> outputs);

 private:
  int storage_number(const at::Tensor& t, const std::vector<at::Tensor>& inputs);
  std::shared_ptr<CapturedGraph> graph_ = std::make_shared<CapturedGraph>();
  std::vector<at::Tensor> stand_ins_;
  std::vector<Ref> placeholders_, initial_;  // of the input storages: what stands for their values, and what their stand-ins hold at first
  std::optional<RecordOnly> only_;
  std::optional<DrawLog> log_;
  uint64_t generator_offset_ = 0;
};

}  // namespace tiny::glue
