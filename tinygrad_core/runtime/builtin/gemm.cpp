#include "runtime/builtin/gemm.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "runtime/builtin/loops.h"

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

/// Panels of `width` rows of `a`: in each the columns one after the other, with zeros where rows are missing. The parts of complex numbers
/// go to panels of their own, all the imaginary ones `apart` behind the real ones.
template <class T>
void pack(Matrix<T> a, int64_t width, int64_t first, int64_t last, Real<T>* to, int64_t apart) {
  to += first * width * a.cols;
  for (int64_t panel = first; panel < last; ++panel, to += a.cols * width) {
    int64_t row = panel * width, n = std::min(width, a.rows - row);
    auto put = [&](int64_t i, int64_t p) {
      if constexpr (is_complex<T>) {
        to[p * width + i] = a(row + i, p).real(), to[apart + p * width + i] = a(row + i, p).imag();
      } else {
        to[p * width + i] = a(row + i, p);
      }
    };
    if (a.down == 1) {
      for (int64_t p = 0; p < a.cols; ++p)
        for (int64_t i = 0; i < n; ++i) put(i, p);
    } else {
      for (int64_t i = 0; i < n; ++i)
        for (int64_t p = 0; p < a.cols; ++p) put(i, p);
    }
    for (int64_t p = 0; p < a.cols && n < width; ++p) {
      std::fill(to + p * width + n, to + (p + 1) * width, Real<T>{});
      if (is_complex<T>) std::fill(to + apart + p * width + n, to + apart + (p + 1) * width, Real<T>{});
    }
  }
}

/// One step of a product: everything is packed.
template <class T>
struct Packed {
  using R = Real<T>;
  const VectorKernels<R>& kernels;
  R scale;
  int64_t depth;
  Matrix<T> c;
  R *a, *b;
  int64_t a_apart, b_apart;      // from the real parts of a, and of b, to the imaginary ones
  R a_sign, b_sign;              // of imaginary parts

  void block(int64_t row, int64_t col) const {
    int64_t row_end = std::min(row + kBlockRows, c.rows), col_end = std::min(col + kBlockCols, c.cols);
    for (int64_t j = col; j < col_end; j += kernels.tile_cols)
      for (int64_t i = row; i < row_end; i += kernels.tile_rows) one(i, j);
  }

  void one(int64_t i, int64_t j) const {
    const R *x = a + i * depth, *y = b + j * depth;
    int64_t rows = std::min<int64_t>(kernels.tile_rows, c.rows - i), cols = std::min<int64_t>(kernels.tile_cols, c.cols - j);
    alignas(64) R parts[1 + is_complex<T>][kMostRows * kMostCols];
    auto add = [&](const R* u, const R* v, R sign, R* to) { kernels.tile(depth, u, v, sign * scale, to, kernels.tile_rows); };
    if constexpr (is_complex<T>) {
      std::fill_n(parts[0], 2 * kMostRows * kMostCols, R{});
      add(x, y, 1, parts[0]), add(x + a_apart, y + b_apart, -a_sign * b_sign, parts[0]);
      add(x, y + b_apart, b_sign, parts[1]), add(x + a_apart, y, a_sign, parts[1]);
      for (int64_t q = 0; q < cols; ++q)
        for (int64_t p = 0; p < rows; ++p) c(i + p, j + q) += T(parts[0][q * kernels.tile_rows + p], parts[1][q * kernels.tile_rows + p]);
    } else {
      if (rows == kernels.tile_rows && cols == kernels.tile_cols) return kernels.tile(depth, x, y, scale, &c(i, j), c.across);
      std::fill_n(parts[0], kMostRows * kMostCols, R{});
      add(x, y, 1, parts[0]);
      for (int64_t q = 0; q < cols; ++q)
        for (int64_t p = 0; p < rows; ++p) c(i + p, j + q) += parts[0][q * kernels.tile_rows + p];
    }
  }
};

/// Few multiplications, or few columns: as many passes over c as a has columns, or a dot product for each element.
template <class T>
void unpacked(Real<T> scale, Matrix<T> a, Matrix<T> b, Matrix<T> c) {
  constexpr int64_t kSome = 16;
  T factors[kSome];
  bool down_columns = a.down == 1 && !(is_complex<T> && a.conjugated);
  for (int64_t j = 0; j < c.cols; ++j)
    for (int64_t p = 0, n; p < a.cols && down_columns; p += n) {
      n = std::min(kSome, a.cols - p);
      for (int64_t q = 0; q < n; ++q) factors[q] = -scale * b.get(p + q, j);
      subtract_columns(c.rows, n, &a(0, p), a.across, factors, &c(0, j));
    }
  for (int64_t j = 0; j < c.cols && !down_columns; ++j)
    for (int64_t i = 0; i < c.rows; ++i) {
      if constexpr (is_complex<T>) {
        T sum = 0;
        for (int64_t p = 0; p < a.cols; ++p) sum += a.get(i, p) * b.get(p, j);
        c(i, j) += scale * sum;
      } else {
        c(i, j) += scale * dot(a.cols, &a(i, 0), a.across, &b(0, j), b.down);
      }
    }
}

template <class T>
void super_block(Device& device, Real<T> scale, Matrix<T> a, Matrix<T> b, Matrix<T> c) {
  static thread_local Scratch scratch;
  using R = Real<T>;
  const VectorKernels<R>& k = vector_kernels<R>();
  int64_t rows = round_up(a.rows, k.tile_rows), cols = round_up(b.cols, k.tile_cols), a_size = rows * a.cols, b_size = cols * a.cols;
  R* memory = static_cast<R*>(scratch.bytes(static_cast<size_t>(a_size + b_size) * sizeof(T)));
  Packed<T> work{k, scale, a.cols, c, memory, memory + a_size * (1 + is_complex<T>), a_size, b_size, a.conjugated ? R(-1) : R(1),
                 b.conjugated ? R(-1) : R(1)};
  spread(device, rows / k.tile_rows, static_cast<double>(k.tile_rows * a.cols),
         [&](int64_t begin, int64_t end) { pack(a, k.tile_rows, begin, end, work.a, a_size); });
  spread(device, cols / k.tile_cols, static_cast<double>(k.tile_cols * a.cols),
         [&](int64_t begin, int64_t end) { pack(b.transposed(), k.tile_cols, begin, end, work.b, b_size); });
  int64_t down = (c.rows + kBlockRows - 1) / kBlockRows, across = (c.cols + kBlockCols - 1) / kBlockCols;
  spread(device, down * across, static_cast<double>(kBlockRows * kBlockCols * a.cols), [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) work.block(at % down * kBlockRows, at / down * kBlockCols);
  });
}

template <class T>
void product(Device& device, Real<T> scale, Matrix<T> a, Matrix<T> b, Matrix<T> c) {
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
void add_product(Device& device, float scale, Matrix<std::complex<float>> a, Matrix<std::complex<float>> b, Matrix<std::complex<float>> c) {
  product(device, scale, a, b, c);
}
void add_product(Device& device, double scale, Matrix<std::complex<double>> a, Matrix<std::complex<double>> b,
                 Matrix<std::complex<double>> c) {
  product(device, scale, a, b, c);
}

}  // namespace tiny
