// The builtin argsort against std::stable_sort, on every dtype.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "runtime/builtin/builtin.h"
#include "runtime/device.h"
#include "uop/eval.h"

namespace tiny {
namespace {

const bool kDevicesSet = setenv("TINY_DEVICE", "CPU,REF,NULL", 1) == 0;

/// a before b in ascending order; NaN last.
bool less(Arg a, Arg b, DType d) {
  if (is_float(d)) return std::isnan(b.f) ? !std::isnan(a.f) : a.f < b.f;
  return is_unsigned(d) ? a.bits < b.bits : a.i < b.i;
}

std::string elements(DType d, size_t n, std::mt19937_64& random, bool few_values) {
  size_t size = static_cast<size_t>(itemsize(d));
  std::string bytes(n * size, 0);
  for (size_t i = 0; i < n; ++i) {
    uint64_t bits = random();
    if (is_bool(d)) bits &= 1;
    if (few_values) bits = storage_bits(convert(Arg(static_cast<int64_t>(random() % 7) - 3), DType::i64, d), d);
    if (is_float(d) && i % 9 == 4) bits = storage_bits(Arg::from_double(random() % 2 ? 0.0 : -0.0), d);
    if (is_float(d) && i % 11 == 3) bits = storage_bits(Arg::from_double(random() % 2 ? NAN : random() % 2 ? -NAN : INFINITY), d);
    std::memcpy(&bytes[i * size], &bits, size);
  }
  return bytes;
}

Arg element(const std::string& bytes, DType d, size_t i) {
  uint64_t bits = 0;
  size_t size = static_cast<size_t>(itemsize(d));
  std::memcpy(&bits, &bytes[i * size], size);
  return from_storage_bits(bits, d);
}

void check(Device& device, DType d, int64_t rows, int64_t columns, bool descending, bool few_values) {
  SCOPED_TRACE(std::string(info(d).name) + " " + std::to_string(rows) + "x" + std::to_string(columns) + (descending ? " descending" : ""));
  std::mt19937_64 random(static_cast<uint64_t>(rows * 1000 + columns) * 16 + static_cast<uint64_t>(d));
  std::string from = elements(d, static_cast<size_t>(rows * columns), random, few_values);
  std::vector<int64_t> to(static_cast<size_t>(rows * columns), -1), want(static_cast<size_t>(columns));
  void* buffers[2] = {to.data(), from.data()};
  int64_t ints[4] = {rows, columns, descending, static_cast<int64_t>(d)};
  builtin_argsort(buffers, nullptr, ints, device);
  for (int64_t r = 0; r < rows; ++r) {
    std::iota(want.begin(), want.end(), 0);
    std::stable_sort(want.begin(), want.end(), [&](int64_t a, int64_t b) {
      Arg x = element(from, d, static_cast<size_t>(r * columns + a)), y = element(from, d, static_cast<size_t>(r * columns + b));
      return descending ? less(y, x, d) : less(x, y, d);
    });
    std::vector<int64_t> have(to.begin() + r * columns, to.begin() + (r + 1) * columns);
    ASSERT_EQ(have, want) << "row " << r;
  }
}

class SortTest : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(DTypes, SortTest, ::testing::Range(1, static_cast<int>(DType::count)),
                         [](const ::testing::TestParamInfo<int>& i) { return std::string(tiny::info(static_cast<DType>(i.param)).name); });

TEST_P(SortTest, AgreesWithStableSort) {
  ASSERT_TRUE(kDevicesSet);
  for (bool descending : {false, true})
    for (bool few_values : {false, true})
      for (auto [rows, columns] : {std::pair<int64_t, int64_t>{1, 1}, {5, 2}, {300, 17}, {7, 511}, {3, 512}, {40, 700}, {1, 70000}})
        check(device(0), static_cast<DType>(GetParam()), rows, columns, descending, few_values);
}

TEST_P(SortTest, OtherDevices) {
  for (int i : {1, 2}) check(device(i), static_cast<DType>(GetParam()), 9, 600, true, true);
}

TEST(Sort, NothingToSort) {
  int64_t ints[2][4] = {{0, 5, 0, static_cast<int64_t>(DType::f32)}, {5, 0, 0, static_cast<int64_t>(DType::f32)}};
  void* buffers[2] = {nullptr, nullptr};
  for (auto& i : ints) builtin_argsort(buffers, nullptr, i, device(0));
}

}  // namespace
}  // namespace tiny
