// What print.cpp and parse.cpp share: how each operator's argument is written. Internal to uop/.
#pragma once
#include "uop/uop.h"

namespace tiny::text {

/// Range: "{number Axis}". Reduce: "{OP columns}". Operator: "{OP}". Value: a number. Record: "{a=[..] b=[..] c=[..] n=.. text=".."}".
enum class Payload { None, Int, Value, Range, Reduce, Operator, Record, Buffer };
Payload payload(Op op);

extern const char* const kAxes[8];

}  // namespace tiny::text
