// Independent pieces of work on threads of their own, with progress on a terminal.
#pragma once
#include <cstddef>
#include <functional>

namespace tiny {

/// Runs work(k) for each k below `count` on at most so many threads; rethrows the first fault. `doing`: what a terminal reads when it takes
/// more than two seconds ("compiling kernels, 3 of 10").
void run_jobs(const char* doing, size_t count, size_t threads, const std::function<void(size_t)>& work);

}  // namespace tiny
