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

/// A CPU generator for an operator that runs on the CPU: seeded from this generator, which moves on.
at::Generator cpu_generator_from(const at::Generator& generator);

}  // namespace tiny::glue
