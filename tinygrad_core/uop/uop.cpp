#include "uop/uop.h"

#include <iterator>
#include <limits>
#include <mutex>
#include <unordered_map>

#include "base/error.h"
#include "base/hash.h"
#include "uop/eval.h"

namespace tiny {
namespace {

uint64_t record_hash(const Record& r) {
  uint64_t h = mix(static_cast<uint64_t>(r.n), XXH3_64bits(r.text.data(), r.text.size()));
  for (const Dims* d : {&r.a, &r.b, &r.c}) h = mix(mix(h, d->size()), XXH3_64bits(d->data(), d->size() * sizeof(int64_t)));
  return h;
}

bool same(const Record& x, const Record& y) { return x.n == y.n && x.a == y.a && x.b == y.b && x.c == y.c && x.text == y.text; }

}  // namespace

const Record* intern(Record r) {
  static std::mutex mutex;
  static auto& table = *new std::unordered_multimap<uint64_t, const Record*>;  // outlives every thread
  static thread_local const Record* recent[1024] = {};  // by hash: programs ask for the same few again and again
  r.hash = record_hash(r);
  const Record*& last = recent[r.hash % std::size(recent)];
  if (last && last->hash == r.hash && same(*last, r)) return last;
  std::lock_guard<std::mutex> lock(mutex);
  auto [at, end] = table.equal_range(r.hash);
  for (; at != end; ++at)
    if (same(*at->second, r)) return last = at->second;
  last = new Record(std::move(r));
  table.emplace(last->hash, last);
  return last;
}

Arg const_arg(DType d, double v) { return convert(Arg::from_double(v), DType::f64, d); }
Arg const_arg(DType d, int64_t v) { return convert(Arg(v), DType::i64, d); }

namespace {

/// The greatest (or least) value of a type: an infinity where there is one.
Arg extreme(DType d, bool greatest) {
  if (d == DType::f8e4m3) return Arg::from_double(greatest ? 448.0 : -448.0);
  if (is_float(d)) return Arg::from_double(greatest ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity());
  if (is_bool(d)) return Arg(static_cast<int64_t>(greatest));
  if (is_unsigned(d)) return greatest ? const_arg(d, int64_t{-1}) : Arg(int64_t{0});
  int64_t least = std::numeric_limits<int64_t>::min() >> (64 - info(d).bits);
  return Arg(greatest ? ~least : least);
}

}  // namespace

Arg identity_arg(Op op, DType d) {
  switch (op) {
    case Op::ADD: case Op::OR: case Op::XOR: return const_arg(d, int64_t{0});
    case Op::MUL: return const_arg(d, int64_t{1});
    case Op::AND: return const_arg(d, int64_t{-1});
    case Op::MAX: return extreme(d, false);
    case Op::MIN: return extreme(d, true);
    default: TINY_ASSERT(false, std::string("no identity for ") + info(op).name); return {};
  }
}

}  // namespace tiny
