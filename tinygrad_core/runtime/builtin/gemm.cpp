#include "runtime/builtin/gemm.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "runtime/builtin/vector_kernels.h"

namespace tiny {
namespace {

constexpr int64_t kDepth = 256;                    // of a packed panel: a tile's columns of b stay in the first cache
constexpr int64_t kBlockRows = 192, kBlockCols = 96;  // of the result: one thread's piece; its rows of a stay in the second cache
constexpr int64_t kSuperBlock = 4096;              // rows and columns that are packed at once: bounds the memory for it
constexpr double kUnpacked = 20000;                // multiplications up to which packing does not pay
constexpr int kMostRows = 64, kMostCols = 16;      // of any tile

/// Memory of one thread for packed panels; grows, never shrinks.
class Scratch {
 public:
  ~Scratch() { std::free(memory_); }
  void* bytes(size_t n) {
    if (n > size_) {
      std::free(memory_);
      size_ = (n + 4095) / 4096 * 4096;
      memory_ = std::aligned_alloc(64, size_);
      if (!memory_) size_ = 0, throw Error(ErrorKind::OutOfMemory, "no memory for the panels of a matrix product");
    }
    return memory_;
  }

 private:
  void* memory_ = nullptr;
  size_t size_ = 0;
};

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/// Panels of `width` rows of `a`: in each the columns one after the other, with zeros where rows are missing.
template <class T>
void pack(Matrix<T> a, int64_t width, int64_t first, int64_t last, T* to) {
  to += first * width * a.cols;
  for (int64_t panel = first; panel < last; ++panel) {
    int64_t row = panel * width, n = std::min(width, a.rows - row);
    if (a.down == 1 && n == width) {
      for (int64_t p = 0; p < a.cols; ++p, to += width) std::copy_n(&a(row, p), width, to);
    } else {
      for (int64_t i = 0; i < n; ++i) {
        const T* from = &a(row + i, 0);
        for (int64_t p = 0; p < a.cols; ++p) to[p * width + i] = from[p * a.across];
      }
      for (int64_t p = 0; p < a.cols; ++p) std::fill(to + p * width + n, to + (p + 1) * width, T{});
      to += a.cols * width;
    }
  }
}

/// One step of a product: everything is packed.
template <class T>
struct Packed {
  const VectorKernels<T>& kernels;
  T scale;
  int64_t depth;
  Matrix<T> c;
  T *a, *b;

  void block(int64_t row, int64_t col) const {
    int64_t row_end = std::min(row + kBlockRows, c.rows), col_end = std::min(col + kBlockCols, c.cols);
    for (int64_t j = col; j < col_end; j += kernels.tile_cols)
      for (int64_t i = row; i < row_end; i += kernels.tile_rows) one(i, j);
  }

  void one(int64_t i, int64_t j) const {
    const T *x = a + i * depth, *y = b + j * depth;
    int64_t rows = std::min<int64_t>(kernels.tile_rows, c.rows - i), cols = std::min<int64_t>(kernels.tile_cols, c.cols - j);
    if (rows == kernels.tile_rows && cols == kernels.tile_cols) return kernels.tile(depth, x, y, scale, &c(i, j), c.across);
    alignas(64) T edge[kMostRows * kMostCols] = {};
    kernels.tile(depth, x, y, scale, edge, kernels.tile_rows);
    for (int64_t q = 0; q < cols; ++q)
      for (int64_t p = 0; p < rows; ++p) c(i + p, j + q) += edge[q * kernels.tile_rows + p];
  }
};

/// Few multiplications, or few columns: as many passes over c as a has columns, or a dot product for each element.
template <class T>
void unpacked(T scale, Matrix<T> a, Matrix<T> b, Matrix<T> c) {
  constexpr int64_t kSome = 16;
  T factors[kSome];
  for (int64_t j = 0; j < c.cols; ++j)
    for (int64_t p = 0, n; p < a.cols && a.down == 1; p += n) {
      n = std::min(kSome, a.cols - p);
      for (int64_t q = 0; q < n; ++q) factors[q] = -scale * b(p + q, j);
      vector_kernels<T>().subtract_columns(c.rows, n, &a(0, p), a.across, factors, &c(0, j));
    }
  for (int64_t j = 0; j < c.cols; ++j)
    for (int64_t i = 0; i < c.rows && a.down != 1; ++i) c(i, j) += scale * dot(a.cols, &a(i, 0), a.across, &b(0, j), b.down);
}

template <class T>
void super_block(Device& device, T scale, Matrix<T> a, Matrix<T> b, Matrix<T> c) {
  static thread_local Scratch scratch;
  const VectorKernels<T>& k = vector_kernels<T>();
  int64_t rows = round_up(a.rows, k.tile_rows), cols = round_up(b.cols, k.tile_cols);
  T* memory = static_cast<T*>(scratch.bytes(static_cast<size_t>((rows + cols) * a.cols) * sizeof(T)));
  Packed<T> work{k, scale, a.cols, c, memory, memory + rows * a.cols};
  spread(device, rows / k.tile_rows, static_cast<double>(k.tile_rows * a.cols),
         [&](int64_t begin, int64_t end) { pack(a, k.tile_rows, begin, end, work.a); });
  spread(device, cols / k.tile_cols, static_cast<double>(k.tile_cols * a.cols),
         [&](int64_t begin, int64_t end) { pack(b.transposed(), k.tile_cols, begin, end, work.b); });
  int64_t down = (c.rows + kBlockRows - 1) / kBlockRows, across = (c.cols + kBlockCols - 1) / kBlockCols;
  spread(device, down * across, static_cast<double>(kBlockRows * kBlockCols * a.cols), [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) work.block(at % down * kBlockRows, at / down * kBlockCols);
  });
}

template <class T>
void product(Device& device, T scale, Matrix<T> a, Matrix<T> b, Matrix<T> c) {
  if (a.rows == 0 || a.cols == 0 || b.cols == 0) return;
  if (!c.by_columns()) return product(device, scale, b.transposed(), a.transposed(), c.transposed());
  if (c.cols < 4 || static_cast<double>(a.rows * a.cols) * static_cast<double>(b.cols) <= kUnpacked) return unpacked(scale, a, b, c);
  static_assert(kBlockRows % 64 == 0 && kBlockRows % 48 == 0 && kBlockCols % 12 == 0 && kBlockCols % 16 == 0);
  for (int64_t p = 0; p < a.cols; p += kDepth)
    for (int64_t j = 0; j < c.cols; j += kSuperBlock)
      for (int64_t i = 0; i < c.rows; i += kSuperBlock) {
        int64_t depth = std::min(kDepth, a.cols - p), rows = std::min(kSuperBlock, c.rows - i), cols = std::min(kSuperBlock, c.cols - j);
        super_block(device, scale, a.block(i, p, rows, depth), b.block(p, j, depth, cols), c.block(i, j, rows, cols));
      }
}

}  // namespace

void add_product(Device& device, float scale, Matrix<float> a, Matrix<float> b, Matrix<float> c) { product(device, scale, a, b, c); }
void add_product(Device& device, double scale, Matrix<double> a, Matrix<double> b, Matrix<double> c) { product(device, scale, a, b, c); }

}  // namespace tiny
