// Applies rule tables: per operator a list of the rules whose root it is, in the order of the tables.
#pragma once
#include <vector>

#include "uop/pattern.h"

namespace tiny {

using RuleTable = std::span<const Rule>;

/// The tables, one a file of rules/, in order of priority.
RuleTable simple_rules();
RuleTable compare_rules();
RuleTable cast_rules();
RuleTable divmod_rules();
RuleTable valid_rules();
RuleTable symbolic_rules();

/// All of them.
const std::vector<RuleTable>& rule_tables();

/// What `rule` makes of `u`, or null if it does not match, declines, or returns `u`.
UOp* apply_rule(const Rule& rule, UOp* u);

/// What the first rule that applies makes of `u`; null if there is none.
UOp* apply_rules(UOp* u);

/// "x + 0 -> x (simple.cpp:12)".
std::string print(const Rule& rule);

}  // namespace tiny
