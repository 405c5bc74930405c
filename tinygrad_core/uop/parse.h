// Reads back what print() writes.
#pragma once
#include <string_view>

#include "uop/ir.h"

namespace tiny {

/// The roots of the graph in `text`, made in the current arena without rewriting: parse(print(u)) is u within u's arena. Blank lines and
/// lines that start with '#' are skipped. Throws Error(Value) with the number of the bad line. BUFFER leaves cannot be read.
std::vector<UOp*> parse(std::string_view text);

/// The operator of that name; Op::count if there is none.
Op op_by_name(std::string_view name);

}  // namespace tiny
