// Hashes that are stable from run to run: they name kernels in the disk cache.
#pragma once
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdint>
#include <string_view>

namespace tiny {

struct Hash128 {
  uint64_t lo = 0, hi = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
};
struct Hash128Hasher {
  using is_avalanching = void;
  uint64_t operator()(const Hash128& h) const { return h.lo; }
};

inline Hash128 hash128(const void* data, size_t n) {
  XXH128_hash_t h = XXH3_128bits(data, n);
  return {h.low64, h.high64};
}
inline Hash128 hash128(std::string_view s) { return hash128(s.data(), s.size()); }

/// Mixes one word into a running hash; order matters. Two multiplications: cheap enough for the key of every flush.
inline uint64_t mix(uint64_t h, uint64_t v) {
  __uint128_t m = static_cast<__uint128_t>(h ^ 0x9E3779B97F4A7C15ull) * (v ^ 0xD6E8FEB86659FD93ull);
  uint64_t r = static_cast<uint64_t>(m) ^ static_cast<uint64_t>(m >> 64);
  return r + ((h << 23) | (h >> 41)) + v;
}

}  // namespace tiny
