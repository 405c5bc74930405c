// SmallVec: a vector that keeps its first N elements inside itself. Shapes and argument lists rarely need more.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <type_traits>

namespace tiny {

template <class T, uint32_t N>
class SmallVec {
  static_assert(std::is_trivially_copyable_v<T>, "elements are moved by memcpy");

 public:
  SmallVec() = default;
  explicit SmallVec(size_t n, T fill = T{}) { resize(n, fill); }
  SmallVec(std::initializer_list<T> v) { append(v.begin(), v.end()); }
  SmallVec(std::span<const T> v) { append(v.data(), v.data() + v.size()); }
  template <class It> SmallVec(It first, It last) { append(first, last); }
  SmallVec(const SmallVec& o) { append(o.begin(), o.end()); }
  SmallVec(SmallVec&& o) noexcept { steal(o); }
  SmallVec& operator=(const SmallVec& o) {
    if (this != &o) { clear(); append(o.begin(), o.end()); }
    return *this;
  }
  SmallVec& operator=(SmallVec&& o) noexcept {
    if (this != &o) { release(); steal(o); }
    return *this;
  }
  ~SmallVec() { release(); }

  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }
  operator std::span<const T>() const { return {data_, size_}; }

  void push_back(T v) {
    if (size_ == capacity_) grow(size_ + 1);
    data_[size_++] = v;
  }
  void pop_back() { --size_; }
  void clear() { size_ = 0; }
  void resize(size_t n, T fill = T{}) {
    if (n > capacity_) grow(n);
    for (size_t i = size_; i < n; ++i) data_[i] = fill;
    size_ = static_cast<uint32_t>(n);
  }
  template <class It> void append(It first, It last) {
    for (; first != last; ++first) push_back(*first);
  }
  void insert(size_t at, T v) {
    push_back(v);
    for (size_t i = size_ - 1; i > at; --i) data_[i] = data_[i - 1];
    data_[at] = v;
  }
  void erase(size_t at) {
    for (size_t i = at; i + 1 < size_; ++i) data_[i] = data_[i + 1];
    --size_;
  }
  friend bool operator==(const SmallVec& a, const SmallVec& b) {
    return a.size_ == b.size_ && std::equal(a.begin(), a.end(), b.begin());
  }

 private:
  void grow(size_t need) {
    size_t cap = capacity_ * 2 > need ? capacity_ * 2 : need;
    T* p = new T[cap];
    std::memcpy(static_cast<void*>(p), data_, size_ * sizeof(T));
    if (data_ != inline_) delete[] data_;
    data_ = p;
    capacity_ = static_cast<uint32_t>(cap);
  }
  void release() {
    if (data_ != inline_) delete[] data_;
    data_ = inline_, size_ = 0, capacity_ = N;
  }
  void steal(SmallVec& o) {
    size_ = o.size_, capacity_ = o.capacity_;
    if (o.data_ == o.inline_) {
      data_ = inline_;
      std::memcpy(static_cast<void*>(inline_), o.inline_, sizeof inline_);
    } else {
      data_ = o.data_;
    }
    o.data_ = o.inline_, o.size_ = 0, o.capacity_ = N;
  }
  T* data_ = inline_;
  uint32_t size_ = 0, capacity_ = N;
  T inline_[N];
};

/// Sizes, strides or indices of one tensor, in elements.
using Dims = SmallVec<int64_t, 6>;

inline int64_t product(std::span<const int64_t> d) {
  int64_t n = 1;
  for (int64_t x : d) n *= x;
  return n;
}

/// Row-major strides of `sizes`, in elements.
inline Dims contiguous_strides(std::span<const int64_t> sizes) {
  Dims s(sizes.size());
  int64_t n = 1;
  for (size_t i = sizes.size(); i-- > 0;) s[i] = n, n *= sizes[i];
  return s;
}

}  // namespace tiny
