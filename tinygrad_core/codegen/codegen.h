// From a kernel's loop nest (SINK of STOREs over RANGEs) to a list of instructions that a renderer spells.
#pragma once
#include <string>
#include <vector>

#include "base/hash.h"
#include "renderer/caps.h"
#include "uop/ir.h"

namespace tiny {

/// A buffer argument of a kernel.
struct ParamInfo {
  DType dtype;
  int64_t numel;
  bool written, read;
};

/// What a runtime needs to know of a compiled kernel; it travels with the binary through the disk cache.
struct ProgramInfo {
  std::string name;              // the C symbol
  std::vector<ParamInfo> params; // by PARAM number
  int scalars = 0;               // VARs: 8 bytes each
  int64_t groups = 1;            // workgroups: the product of the Global extents
  int64_t lanes = 1;             // lanes of a workgroup
  int64_t scratch_bytes = 0;     // LOCAL arrays of one workgroup
  double flops = 0, bytes = 0;   // estimates for one launch: cost model and explain()
};

/// `linear`, the contract between codegen and renderers: nodes of the arena, each once, sources first, in the order of execution.
/// * RANGE opens a loop (axis Loop or Reduce) and END(RANGE) closes it. Global ranges come first and have no END: the renderer wraps the
/// body in a
///   loop over workgroups and takes them as digits of the workgroup's number, the last Global range fastest. Local ranges follow, without
///   END.
/// * The extent of a Loop or Reduce RANGE (its src0) is a scalar i64 that stands before it: a CONST, or computed, and then the loop may run
/// zero
///   times ("if" is a loop that runs zero times or once). Global and Local extents are CONST.
/// * LOCAL arrays lie in scratch in the order of their numbers, each at the next multiple of 64 bytes; two of one number in the same
///   place, at times that a BARRIER separates.
/// * A BLOCK may go on reading its tiles until the next BLOCK is done or its loop has ended: before that nothing is written there until the
///   second BARRIER after it.
/// * ACC is a variable, set to its src0 where it stands (before its loop opens); its other sources only say which loops. Read as a plain
/// source inside the
///   loop; UPDATE(ACC, value) assigns. AFTER(ACC, ...) stands behind the END and is the final value; for a PREFIX it stands behind the
///   UPDATE inside the loop. AFTER(array, ...) is the array (and may stand on another AFTER).
/// * numel > 1 is a vector of that many lanes; a source with numel 1 broadcasts. INDEX with a scalar index under a LOAD or STORE of n lanes
///   means n consecutive elements (alignment of one element); with a vector index, a gather or scatter, lane by lane in order.
///   A gate is bool, scalar or one per lane.
/// * FOLDLANES combines the lower half of the lanes with the upper half, lane by lane, until one is left. Of an odd number the last lane is
///   set aside; those combine in turn, as the right operand at the end.
/// * bool values are i1 in registers, a byte 0 or 1 in memory. Reduced floats appear only in LOAD, STORE, CAST, BITCAST, CONST and WHERE:
///   arithmetic on them was widened to f32. Transcendentals are decomposed, or calls of libm where the op remains (rare ones, f64).
/// * No FOLD, PREFIX, ORDERED, CHECK, SINK, THREEFRY.
struct Program {
  ProgramInfo info;
  std::vector<UOp*> linear;      // in the arena of the sink
  std::string text;              // instead: in the target's own language, of a kernel that was not made from a loop nest
  int choices = 1;               // ways in which the heuristics could have split its axes
};

/// Kernel AST, the contract between schedule and codegen (spec.h verifies it):
/// * SINK of STOREs (or ORDERED around a STORE). STORE(INDEX(PARAM or LOCAL, i64 index), value[, gate]).
/// * RANGEs have axis Global (rows: independent, may run in any order), Loop (inner loops without a result, independent unless ORDERED or
///   PREFIX name them) or Reduce (named by FOLD). One RANGE node is one loop: all its users sit in the same body, nested in the same outer
///   loops.
/// * FOLD's value may depend on outer ranges and on other FOLDs' results; AFTER orders reads of an array behind its stores.
/// * A Reduce range's loop may hold STOREs too (to results and to LOCAL arrays): splitting it duplicates them with the FOLDs.
/// * A LOCAL array belongs to one point of the Global ranges that its stores and loads are under: those may become sequential loops of a
///   workgroup, but not Vector, Upcast or lanes.
/// * No vectors, ACC, UPDATE, END, LANES yet: codegen makes them.
/// * The last PARAM of a kernel that holds CHECKs is the error record (see runtime/device.h), i64[4]. It may be a source of the SINK, which
/// says its
///   number even if PARAMs before it are not used; without that, it is the one after the PARAMs in use.
///
/// Runs: heuristics (opt/), expansion of Upcast, Unroll and Vector axes, simplification, decomposition, linearisation.
/// `sink` lives in the current arena. `flags`: 0, or kNoOptions to skip the heuristics (the unoptimised kernel, for tests). `choice`: which
/// of the ways to split its axes, in the order in which the heuristics expect them to be good; 0 is what they would take.
inline constexpr int kNoOptions = 1;
Program lower_kernel(UOp* sink, const Caps& caps, std::string name, int flags = 0, int choice = 0);

/// A name for people: what a kernel does and its size, "r_512_2048" style. Not unique.
std::string kernel_name(UOp* sink);

}  // namespace tiny
