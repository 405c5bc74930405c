#include "tables.h"

#include <map>
#include <tuple>

namespace tiny::glue {
namespace {

constexpr size_t kMaxBytes = size_t{128} << 20;  // of one device; the least recently used go first
constexpr size_t kMaxTables = 512;

using Key = std::tuple<int, DType, decltype(lower::Table::fill), std::vector<int64_t>>;
struct Entry {
  Ref leaf;
  size_t bytes;
  uint64_t last_use;
};

struct Cache {
  std::map<Key, Entry> tables;
  std::map<int, size_t> bytes;   // by device
  uint64_t uses = 0;
};

/// Never destroyed: leaves give memory back to devices that may be gone by then. Guarded by the graph lock.
Cache& cache() {
  static auto* c = new Cache;
  return *c;
}

void drop(std::map<Key, Entry>::iterator it) {
  cache().bytes[std::get<0>(it->first)] -= it->second.bytes;
  cache().tables.erase(it);
}

void make_room(int device, size_t bytes) {
  Cache& c = cache();
  while (c.bytes[device] > 0 && (c.bytes[device] + bytes > kMaxBytes || c.tables.size() >= kMaxTables)) {
    auto oldest = c.tables.end();
    for (auto it = c.tables.begin(); it != c.tables.end(); ++it)
      if (std::get<0>(it->first) == device && (oldest == c.tables.end() || it->second.last_use < oldest->second.last_use)) oldest = it;
    drop(oldest);
  }
}

Ref make_leaf(Device& device, const lower::Table& table, DType d) {
  std::vector<double> numbers(static_cast<size_t>(table.numel));
  table.fill(table.key, numbers.data());
  Buffer* b = device.alloc(numbers.size() * static_cast<size_t>(itemsize(d)));
  if (d == DType::f64) {
    device.copy_in(b, 0, numbers.data(), b->nbytes);
  } else {
    const std::vector<float> rounded(numbers.begin(), numbers.end());
    device.copy_in(b, 0, rounded.data(), b->nbytes);
  }
  Ref leaf = make_buffer_node(b, d, table.numel);
  b->release();
  return leaf;
}

}  // namespace

tiny::Tensor table_on(Device& device, const lower::Table& table, DType d) {
  TINY_ASSERT(d == DType::f32 || d == DType::f64, "a table of f32 or f64");
  const Dims sizes{table.numel};
  if (table.numel == 0) return zeros(sizes, d);
  Cache& c = cache();
  Key key(device.index(), d, table.fill, std::vector<int64_t>(table.key.begin(), table.key.end()));
  auto it = c.tables.find(key);
  if (it == c.tables.end()) {
    const size_t bytes = static_cast<size_t>(table.numel * itemsize(d));
    Ref leaf = make_leaf(device, table, d);
    if (bytes > kMaxBytes) return tiny::Tensor(std::move(leaf), sizes);
    make_room(device.index(), bytes);
    it = c.tables.emplace(std::move(key), Entry{std::move(leaf), bytes, 0}).first;
    c.bytes[device.index()] += bytes;
  }
  it->second.last_use = ++c.uses;
  return tiny::Tensor(it->second.leaf, sizes);
}

void drop_tables(Device& device) {
  GraphLock lock;
  Cache& c = cache();
  for (auto it = c.tables.begin(); it != c.tables.end();) {
    const auto next = std::next(it);
    if (std::get<0>(it->first) == device.index()) drop(it);
    it = next;
  }
}

}  // namespace tiny::glue
