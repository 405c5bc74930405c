#pragma once
#include <string>
#include <vector>

namespace tiny::glue {

/// Names of all aten overloads that a lowering serves.
std::vector<std::string> lowered_operators();
/// What is wrong with the tables: names that this torch does not have, duplicates, rows that would hide an operator's derivative.
std::vector<std::string> table_problems();

}  // namespace tiny::glue
