// Vector indices of the form first + stride * lane.
#pragma once
#include "uop/ir.h"

namespace tiny {

struct LaneForm {
  UOp* first = nullptr;  // scalar; null: another form
  int64_t stride = 0;
};

/// The form of index `u`, if it has it. A scalar has stride 0.
LaneForm lane_form(UOp* u);

}  // namespace tiny
