// Linear programs written by hand, and running them on this process's CPU through either renderer.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "renderer/c_load.h"
#include "renderer/host_caps.h"
#include "renderer/llvm_jit.h"
#include "uop/ir.h"

namespace tiny {

/// Builds a Program: add() lists a node behind its sources, in the order of the calls.
class KernelBuilder {
 public:
  explicit KernelBuilder(std::string name = "kernel") : scope_(arena_) { program.info.name = std::move(name); }

  U add(U u) {
    if (!seen_.insert(u.u).second) return u;
    size_t listed = u->is(Op::ACC) ? 1 : u->nsrc;  // an ACC stands before its loops open
    for (size_t i = 0; i < listed; ++i) add(u->src[i]);
    program.linear.push_back(u);
    if (u->is(Op::LOCAL)) program.info.scratch_bytes += (const_int(u->src[0]) * itemsize(u->dtype) + 63) / 64 * 64;
    return u;
  }
  U param(int number, DType d, int64_t numel) {
    auto& params = program.info.params;
    if (static_cast<size_t>(number) >= params.size()) params.resize(number + 1);
    params[number] = {d, numel, true, true};
    return add(node(Op::PARAM, d, {index_const(numel)}, Arg(int64_t{number}), 1));
  }
  U global(int64_t extent, int64_t number) {
    program.info.groups *= extent;
    return add(range(extent, number, Axis::Global));
  }
  U loop(int64_t extent, int64_t number, Axis axis = Axis::Reduce) { return add(range(extent, number, axis)); }
  void end(U r) { add(node(Op::END, DType::void_, {r})); }
  U index(U array, U i) { return node(Op::INDEX, array->dtype, {array, i}, {}, i->numel); }
  U load(U array, U i, int64_t lanes = 1) { return add(node(Op::LOAD, array->dtype, {index(array, i)}, {}, std::max(lanes, i->numel))); }
  U load_gated(U array, U i, U gate, U other, int64_t lanes = 1) {
    return add(node(Op::LOAD, array->dtype, {index(array, i), gate, other}, {}, std::max({lanes, i->numel, gate->numel})));
  }
  void store(U array, U i, U v, int64_t lanes = 1) {
    add(node(Op::STORE, DType::void_, {index(array, i), v}, {}, std::max({lanes, i->numel, v->numel})));
  }
  void store_gated(U array, U i, U v, U gate, int64_t lanes = 1) {
    add(node(Op::STORE, DType::void_, {index(array, i), v, gate}, {}, std::max({lanes, i->numel, v->numel, gate->numel})));
  }
  U acc(int64_t number, U start, U loop, int64_t lanes = 1) { return add(node(Op::ACC, start->dtype, {start, loop}, Arg(number), lanes)); }
  void update(U acc, U v) { add(node(Op::UPDATE, acc->dtype, {acc, v})); }
  U after(U x, U y) { return add(node(Op::AFTER, x->dtype, {x, y}, {}, x->numel)); }
  U lanes(int64_t n) { return node(Op::LANES, kIndex, std::initializer_list<UOp*>{}, {}, n); }

  Program program;

 private:
  Arena arena_;
  IrScope scope_;
  std::set<UOp*> seen_;
};

/// One renderer with its loader.
struct CpuRenderer {
  const char* name;
  std::unique_ptr<Compiler> (*make)(const Caps&);
  std::unique_ptr<CpuCode> (*load)(const Binary&, const std::string&);
};
inline const CpuRenderer kLlvm{"llvm", make_llvm_compiler, llvm_load};
inline const CpuRenderer kC{"c", make_c_compiler, c_load};

struct LoadedKernel {
  std::unique_ptr<CpuCode> code;
  ProgramInfo info;
  void run(std::vector<void*> buffers, std::vector<uint64_t> scalars = {}) const {
    std::vector<char> scratch(info.scratch_bytes + 64);
    char* aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
    code->entry(buffers.data(), scalars.data(), 0, info.groups, aligned);
  }
};
inline LoadedKernel build(const CpuRenderer& r, const Program& p, const Caps& caps) {
  auto compiler = r.make(caps);
  return {r.load(compiler->compile(p), p.info.name), p.info};
}

}  // namespace tiny
