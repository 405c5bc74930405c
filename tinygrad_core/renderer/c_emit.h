// A Program as C++ text.
#pragma once
#include <set>
#include <string>

#include "renderer/linear.h"
#include "renderer/renderer.h"

namespace tiny {

class CEmitter {
 public:
  CEmitter(const Program& program, const Caps& caps) : program_(program), caps_(caps), local_offsets_(local_offsets(program)) {}
  std::string run();

 private:
  void emit(UOp* u);
  void split_group_number();
  void define(UOp* u, const std::string& expression);
  void line(const std::string& text);
  std::string expression(UOp* u);
  std::string alu(UOp* u);
  std::string apply(Op op, DType d, int64_t n, const std::string& a, const std::string& b);
  std::string function(const std::string& name, DType result, std::initializer_list<DType> sources, int64_t n,
                       const std::string& scalar, const std::string& arguments);
  std::string cast(const std::string& v, DType from, DType to, int64_t n);
  std::string libm(UOp* u);
  std::string constant(const UOp* u);
  std::string fold_lanes(UOp* u);
  void load(UOp* u);
  void store(UOp* u);
  std::string array(UOp* a);
  std::string lane(UOp* u, int64_t i);                 // lane i of a value, or the scalar
  std::string value(UOp* u, int64_t n);                // broadcast to n lanes
  std::string splat(const std::string& v, DType d, int64_t n);
  std::string mask(const std::string& m, int bits, int64_t n);  // a vector of bool as integers of `bits`
  std::string type(DType d, int64_t n = 1);
  std::string vector_type(const std::string& element, int64_t bytes, int64_t n);
  std::string memory_type(DType d, int64_t n = 1);

  const Program& program_;
  const Caps& caps_;
  std::vector<int64_t> local_offsets_;
  std::set<std::string> types_, functions_;
  std::string types_text_, functions_text_, body_;
  std::set<int64_t> params_;
  int depth_ = 1;
};

}  // namespace tiny
