// Random numbers are counter based: number i of a draw is a function of the generator's seed and of its offset + i, so the same seed gives
// the same numbers on every device and whatever was fused.
#pragma once
#include "tensor.h"

namespace tiny::glue {

const at::Generator& default_generator(c10::DeviceIndex index);
at::Generator new_generator(c10::DeviceIndex index);

/// Seed and offset before a draw of `numel` numbers; the generator moves on. Takes the generator's own mutex.
struct Draw { uint64_t seed, offset; };
Draw draw(const at::Generator& generator, int64_t numel);

/// Draws of this thread while one exists: the graph's numbers for seed and offset, and how far each draw moved the generator on.
struct DrawLog {
  DrawLog();
  ~DrawLog();
  DrawLog(const DrawLog&) = delete;
  static DrawLog* current();
  std::vector<Ref> numbers;       // seed and offset of each draw
  std::vector<int64_t> counts;
};

/// A CPU generator for an operator that runs on the CPU: seeded from this generator, which moves on.
at::Generator cpu_generator_from(const at::Generator& generator);

}  // namespace tiny::glue
