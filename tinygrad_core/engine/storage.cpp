#include "engine/storage.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/engine.h"
#include "engine/faults.h"
#include "engine/record_only.h"

namespace tiny {
namespace {

/// Order of the dimensions in which (sizes, strides) walks memory densely from its start; empty if it leaves gaps, repeats or goes
/// backwards.
bool dense_order(const Dims& sizes, const Dims& strides, SmallVec<int64_t, 6>* order) {
  for (size_t i = 0; i < sizes.size(); ++i) order->push_back(static_cast<int64_t>(i));
  std::stable_sort(order->begin(), order->end(), [&](int64_t a, int64_t b) {
    return sizes[a] != 1 && (sizes[b] == 1 || strides[a] > strides[b]);
  });
  int64_t expected = 1;
  for (size_t k = order->size(); k-- > 0;) {
    int64_t d = (*order)[k];
    if (sizes[d] == 1) continue;
    if (strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

/// Whether (sizes, strides) from offset 0 are `numel` elements one after another.
bool is_flat(const Dims& sizes, const Dims& strides, int64_t offset, int64_t numel) {
  if (offset != 0) return false;
  int64_t expected = 1;
  for (size_t i = sizes.size(); i-- > 0; expected *= sizes[i])
    if (strides[i] != expected && sizes[i] != 1) return false;
  return expected == numel;
}

void check_bounds(const Dims& sizes, const Dims& strides, int64_t offset, int64_t numel) {
  int64_t last = offset;
  for (size_t i = 0; i < sizes.size(); ++i) last += (sizes[i] - 1) * strides[i];
  if (last >= numel)
    throw Error(ErrorKind::Value, fmt::format("the tensor needs {} elements of its storage, which has {}", last + 1, numel));
}

}  // namespace

Storage::Storage(Device& device, size_t nbytes) : device_(&device), nbytes_(nbytes) {}

Storage::~Storage() {
  Engine::unlink(this);
  if (pinned_buffer_) pinned_buffer_->release();
}

void Storage::check_readable() {
  if (failed_.empty() && flush_)
    if (const Fault* f = Engine::of(*device_).fault_of(this)) spoil(*f);
  if (!failed_.empty()) throw Error(failed_kind_, failed_);
}

void Storage::spoil(const Fault& fault) { failed_ = fault.message, failed_kind_ = fault.kind; }

bool Storage::is_pending() const { return value_ && !value_->is(Op::BUFFER) && !value_->is(Op::EMPTY); }

int64_t Storage::elements(DType dtype) const { return (static_cast<int64_t>(nbytes_) + itemsize(dtype) - 1) / itemsize(dtype); }

/// Storages may share a leaf, because no operator writes to it. Whoever has the address of a pinned one does, so that is copied.
Ref Storage::own(Ref value) {
  if (value->is(Op::EMPTY) && pinned_) return make_buffer_node(pinned_buffer_, DType::u8, static_cast<int64_t>(nbytes_));
  if (!value->is(Op::BUFFER) || value->arg.buf == pinned_buffer_ || !(pinned_ || value->arg.buf->pinned)) return value;
  Record all;
  all.a = Dims{value->numel}, all.b = Dims{1};
  Ref room = make_node(Op::EMPTY, value->dtype, value->numel, {}, {});
  UOp* src[] = {room.get(), value.get()};
  return make_node(Op::ASSIGN, value->dtype, value->numel, Arg(intern(std::move(all))), src);
}

void Storage::set(Ref value) {
  value_ = own(std::move(value));
  failed_.clear();
  flush_ = 0, suspect_ = false;
  Engine& e = Engine::of(*device_);
  e.note_write(value_.get());
  Engine::unlink(this);
  if (is_pending()) e.link(this);
}

void Storage::realize(const char* cause) {
  if (is_pending()) Engine::of(*device_).flush(cause);
  check_readable();
  if (!value_ || value_->is(Op::EMPTY)) {
    Buffer* b = Engine::of(*device_).alloc(nbytes_);
    value_ = make_buffer_node(b, DType::u8, static_cast<int64_t>(nbytes_));
    b->release();
  }
}

Ref& Storage::as(DType dtype) {
  int64_t n = elements(dtype);
  if (!value_) value_ = make_node(Op::EMPTY, dtype, n, {}, {});
  if (value_->dtype == dtype && value_->numel == n) return value_;
  if (value_->is(Op::EMPTY)) return value_ = make_node(Op::EMPTY, dtype, n, {}, {});
  if (!value_->is(Op::BUFFER) && itemsize(value_->dtype) == itemsize(dtype)) {
    UOp* src[] = {value_.get()};
    return value_ = make_node(Op::BITCAST, dtype, n, {}, src);
  }
  realize("reinterpretation");
  return value_ = make_buffer_node(buffer(), dtype, n);
}

Tensor Storage::read(DType dtype, const Dims& sizes, const Dims& strides, int64_t offset) {
  check_readable();
  if (product(sizes) == 0) return empty_value(sizes, dtype);
  if (host_shared_) Engine::of(*device_).settle_after_operator();
  Ref& v = as(dtype);
  if (is_flat(sizes, strides, offset, v->numel)) return Tensor(v, sizes);
  check_bounds(sizes, strides, offset, v->numel);
  return Tensor(v, Dims{v->numel}).view(sizes, strides, offset);
}

void Storage::write(const Dims& sizes, const Dims& strides, int64_t offset, const Tensor& value) {
  if (value.numel() == 0) return;
  if (host_shared_) Engine::of(*device_).settle_after_operator();
  int64_t n = elements(value.dtype());
  if (is_flat(sizes, strides, offset, n)) return set(value.ref());
  Dims order;
  if (offset == 0 && value.numel() == n && dense_order(sizes, strides, &order)) {
    Tensor t = value.permute(order);
    return set(t.ref());
  }
  check_readable();
  check_bounds(sizes, strides, offset, n);
  Tensor old(as(value.dtype()), Dims{n});
  Record r;
  r.a = sizes, r.b = strides, r.n = offset;
  UOp* src[] = {old.node(), value.node()};
  set(make_node(Op::ASSIGN, value.dtype(), n, Arg(intern(std::move(r))), src));
}

void Storage::resize(size_t nbytes) {
  if (nbytes == nbytes_) return;
  if (pinned_) {  // the old address is valid for nobody: who resizes asks for other memory
    realize("resize");
    pinned_ = host_shared_ = false;
    std::exchange(pinned_buffer_, nullptr)->release();
  }
  if (!value_ || value_->is(Op::EMPTY)) {
    nbytes_ = nbytes;
    value_ = Ref();
    Engine::unlink(this);
    return;
  }
  DType d = value_->dtype;
  nbytes_ = nbytes;
  int64_t n = elements(d), keep = std::min(n, value_->numel);
  Tensor old = Tensor(value_, Dims{value_->numel}).view(Dims{keep}, Dims{1}, 0);
  if (n <= keep) return set(old.ref());
  Record r;
  r.a = Dims{keep}, r.b = Dims{1};
  Ref room = make_node(Op::EMPTY, d, n, {}, {});
  UOp* src[] = {room.get(), old.node()};
  set(make_node(Op::ASSIGN, d, n, Arg(intern(std::move(r))), src));
}

void Storage::own_buffer() {
  realize("host write");
  if (value_->refs == 1 && buffer()->refs.load() == 1 && buffer()->nbytes >= nbytes_) return;
  Buffer* mine = Engine::of(*device_).alloc(nbytes_);
  std::string bytes(nbytes_, '\0');  // through the host: rare (a shared value that the host writes in part)
  device_->copy_out(bytes.data(), buffer(), 0, std::min(nbytes_, buffer()->nbytes));
  device_->copy_in(mine, 0, bytes.data(), nbytes_);
  value_ = make_buffer_node(mine, value_->dtype, elements(value_->dtype));
  mine->release();
}

void Storage::copy_in(size_t offset, const void* src, size_t n) {
  if (n == 0) return;
  if (offset == 0 && n == nbytes_ && !pinned_) {
    Buffer* b = Engine::of(*device_).alloc(nbytes_);
    device_->copy_in(b, 0, src, n);
    set(make_buffer_node(b, DType::u8, static_cast<int64_t>(nbytes_)));
    b->release();
    return;
  }
  if (!pinned_) {
    own_buffer();
  } else {
    realize("host write");
    if (value_->refs > 1) Engine::of(*device_).flush("host write");  // pending operators have read what is there now
  }
  device_->copy_in(buffer(), offset, src, n);
}

Buffer* Storage::settle(const char* cause, bool pin) {
  RecordOnly::refuse(cause);
  bool pending = false;
  {
    GraphLock lock;
    check_readable();
    // Whoever asks for the address may write there: first run what has read it.
    pending = is_pending() || (pin && pinned_ && value_->refs > 1);
  }
  if (pending) Engine::of(*device_).flush(cause, true);  // without the lock: it may compile
  GraphLock lock;
  check_readable();
  if (pin && !pinned_) {
    own_buffer();
    pinned_ = buffer()->pinned = true;
    pinned_buffer_ = buffer();
    pinned_buffer_->retain();
  } else {
    realize(cause);
  }
  buffer()->retain();
  return buffer();
}

void Storage::finish(Buffer* b) {
  struct Give {
    Buffer* b;
    ~Give() { b->release(); }
  };
  Give give{b};
  Engine::of(*device_).wait_and_check(b->last_use);
  GraphLock lock;
  check_readable();
}

void Storage::copy_out(void* dst, size_t offset, size_t n) {
  if (n == 0) return;
  if (offset + n > nbytes_)
    throw Error(ErrorKind::Value, fmt::format("the tensor needs {} bytes of its storage, which has {}", offset + n, nbytes_));
  Buffer* b = settle("read", false);
  b->retain();
  try {
    if (device_->host_visible()) finish(b);  // others copy behind the work, and wait once for both
    device_->copy_out(dst, b, offset, n);
    if (!device_->host_visible()) finish(b);
  } catch (...) {
    b->release();
    throw;
  }
  b->release();
}

void* Storage::pin() {
  Buffer* b = settle("pin", true);
  void* address = b->ptr;
  finish(b);
  return address;
}

void Storage::share_with_host() {
  GraphLock lock;
  host_shared_ = pinned_;
}

}  // namespace tiny
