#include "runtime/cuda/executable.h"

#include <fmt/format.h>

namespace tiny::cuda {

ContextUser::ContextUser(int ordinal) {
  int count = 0;
  TINY_CUDA(cuDeviceGetCount, &count);
  if (ordinal >= count) throw Error(ErrorKind::Value, fmt::format("TINY_DEVICE names CUDA:{}, this machine has {} GPUs", ordinal, count));
  TINY_CUDA(cuDeviceGet, &device_, ordinal);
  TINY_CUDA(cuDevicePrimaryCtxRetain, &context_, device_);
}

void ContextUser::use() const {
  static thread_local Context current = nullptr;
  if (forked_)
    throw Error(ErrorKind::Runtime,
                "a GPU that was used before fork() cannot be used in the child: start processes by spawn or forkserver");
  if (current == context_) return;
  TINY_CUDA(cuCtxSetCurrent, context_);
  current = context_;
}

int ContextUser::attribute(int which) const {
  int v = 0;
  TINY_CUDA(cuDeviceGetAttribute, &v, which, device_);
  return v;
}

CudaExecutable::CudaExecutable(const ContextUser& context, const ProgramInfo& program, const Binary& cubin) : context_(context) {
  info = program;
  context_.use();
  check(driver().cuModuleLoadData(&module_, cubin.data()), "cuModuleLoadData", info.name.c_str());
  check(driver().cuModuleGetFunction(&function_, module_, info.name.c_str()), "cuModuleGetFunction", info.name.c_str());
  if (info.scratch_bytes > kStaticScratch) {
    dynamic_bytes_ = static_cast<unsigned>(info.scratch_bytes);
    check(driver().cuFuncSetAttribute(function_, kMaxDynamicShared, static_cast<int>(dynamic_bytes_)), "cuFuncSetAttribute",
          info.name.c_str());
  }
  if (info.groups > INT32_MAX)
    throw Error(ErrorKind::NotImplemented, fmt::format("{}: {} workgroups are too many", info.name, info.groups));
}

KernelNode CudaExecutable::node(void* const* buffers, const uint64_t* scalars, SmallVec<void*, 32>& parameters) const {
  for (size_t i = 0; i < info.params.size(); ++i) parameters.push_back(const_cast<void**>(buffers + i));
  for (int i = 0; i < info.scalars; ++i) parameters.push_back(const_cast<uint64_t*>(scalars + i));
  return {function_, {static_cast<unsigned>(info.groups), 1, 1}, {static_cast<unsigned>(info.lanes), 1, 1}, dynamic_bytes_,
          parameters.data(), nullptr, nullptr, context_.context()};
}

}  // namespace tiny::cuda
