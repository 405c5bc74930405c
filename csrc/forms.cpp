// Finds the in-place and out= forms of a functional operator by comparing schemas.
#include <unordered_map>
#include <unordered_set>

#include "boxed.h"

namespace tiny::glue {
namespace {

/// Every overload by the operator's base name.
const std::unordered_map<std::string, std::vector<c10::OperatorName>>& overloads() {
  static const auto* map = [] {
    auto* m = new std::unordered_map<std::string, std::vector<c10::OperatorName>>;
    for (auto& name : c10::Dispatcher::singleton().getAllOpNames()) (*m)[name.name].push_back(name);
    return m;
  }();
  return *map;
}

bool is_written(const c10::Argument& a) { return a.alias_info() && a.alias_info()->isWrite(); }

/// Arguments that only say how to make a result: an out= form does not have them.
bool is_option(const c10::Argument& a) {
  static const std::array names{"dtype", "layout", "device", "pin_memory"};
  return std::find(names.begin(), names.end(), a.name()) != names.end();
}

bool same(const c10::Argument& a, const c10::Argument& b) { return a.name() == b.name() && *a.type() == *b.type(); }

bool is_in_place_form(const c10::FunctionSchema& f, const c10::FunctionSchema& s) {
  if (f.arguments().size() != s.arguments().size() || s.arguments().empty() || !is_written(s.arguments()[0])) return false;
  for (size_t i = 0; i < f.arguments().size(); ++i)
    if (!same(f.arguments()[i], s.arguments()[i]) || (i > 0 && is_written(s.arguments()[i]) != is_written(f.arguments()[i]))) return false;
  return true;
}

bool is_out_form(const c10::FunctionSchema& f, const c10::FunctionSchema& s) {
  std::vector<const c10::Argument*> inputs, wanted, wanted_without_options;
  size_t outs = 0;
  for (const c10::Argument& a : s.arguments()) {
    if (a.is_out()) ++outs;
    else inputs.push_back(&a);
  }
  for (const c10::Argument& a : f.arguments()) {
    wanted.push_back(&a);
    if (!is_option(a)) wanted_without_options.push_back(&a);
  }
  if (outs == 0 || outs != f.returns().size()) return false;
  auto equal = [&](const auto& w) {
    return w.size() == inputs.size() && std::equal(w.begin(), w.end(), inputs.begin(), [](auto* a, auto* b) { return same(*a, *b); });
  };
  return equal(wanted) || equal(wanted_without_options);
}

}  // namespace

Forms other_forms(const c10::OperatorHandle& functional) {
  Forms forms;
  const c10::FunctionSchema& f = functional.schema();
  for (const c10::Argument& a : f.arguments())
    if (is_written(a)) return forms;  // already writes
  auto find = [&](const std::string& base, auto&& accept) -> std::optional<c10::OperatorHandle> {
    const auto it = overloads().find(base);
    if (it == overloads().end()) return std::nullopt;
    for (const c10::OperatorName& name : it->second) {
      const auto handle = c10::Dispatcher::singleton().findSchema(name);
      if (handle && accept(f, handle->schema())) return handle;
    }
    return std::nullopt;
  };
  forms.in_place = find(f.name() + "_", is_in_place_form);
  forms.out = find(f.name(), is_out_form);
  return forms;
}

bool is_structured(const c10::OperatorHandle& functional) {
  return functional.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional);
}

std::optional<c10::OperatorHandle> functional_form(const c10::OperatorHandle& out) {
  const auto it = overloads().find(out.schema().name());
  if (it == overloads().end()) return std::nullopt;
  for (const c10::OperatorName& name : it->second) {
    const auto handle = c10::Dispatcher::singleton().findSchema(name);
    if (handle && is_out_form(handle->schema(), out.schema())) return handle;
  }
  return std::nullopt;
}

namespace {

c10::TypePtr without_optional(c10::TypePtr t) {
  return t->kind() == c10::TypeKind::OptionalType ? t->castRaw<c10::OptionalType>()->getElementType() : t;
}

}  // namespace

Plan make_plan(const Row& row, const c10::OperatorHandle& op) {
  const c10::FunctionSchema& s = op.schema();
  Plan p;
  p.row = &row, p.name = toString(op.operator_name());
  const std::string_view writes = row.writes;
  for (size_t i = 0; i < s.arguments().size(); ++i) {
    const c10::Argument& a = s.arguments()[i];
    Plan::Argument x;
    x.dtype = without_optional(a.real_type())->kind() == c10::TypeKind::ScalarTypeType;
    x.generator = without_optional(a.type())->kind() == c10::TypeKind::GeneratorType;
    x.out = a.is_out();
    if (a.type()->kind() == c10::TypeKind::ListType)
      x.index_list = a.type()->castRaw<c10::ListType>()->getElementType()->kind() == c10::TypeKind::OptionalType;
    if (x.out) p.targets.push_back(static_cast<int>(i));
    else if (is_written(a)) p.written.push_back(static_cast<int>(i));
    p.arguments.push_back(x);
  }
  for (size_t start = 0; start < writes.size();) {
    const size_t end = std::min(writes.find(',', start), writes.size());
    const auto position = s.argumentIndexWithName(std::string(writes.substr(start, end - start)));
    TORCH_INTERNAL_ASSERT(position, "torch_tiny: ", p.name, " has no argument named ", writes.substr(start, end - start));
    p.written.push_back(*position);
    start = end + 1;
    while (start < writes.size() && writes[start] == ' ') ++start;
  }
  for (const c10::Argument& r : s.returns()) {
    int alias = -1;
    if (r.alias_info() && r.alias_info()->isWrite())
      for (size_t i = 0; i < s.arguments().size(); ++i)
        if (is_written(s.arguments()[i]) && s.arguments()[i].alias_info()->beforeSets() == r.alias_info()->beforeSets())
          alias = static_cast<int>(i);
    p.returns.push_back(alias);
    if (alias < 0 && r.type()->kind() == c10::TypeKind::ListType) p.list_result = true;
  }
  p.pointwise = op.hasTag(at::Tag::pointwise);
  p.keeps_order = p.name == "aten::flip";
  static const std::unordered_set<std::string_view> following{"aten::constant_pad_nd", "aten::convolution_overrideable",
                                                              "aten::native_group_norm"};
  p.follows_format = following.count(p.name) != 0;
  if (p.name == "aten::roll") p.follows_with = 2;
  p.number_is_operand = p.name.size() == 15 && p.name.ends_with(".Scalar");
  p.is_cat = p.name == "aten::cat.out";
  static const std::unordered_map<std::string_view, int> apart{
    {"aten::cat.out", 0}, {"aten::gather.out", 0}, {"aten::index.Tensor_out", 0}, {"aten::index_select.out", 0}, {"aten::take.out", 0},
    {"aten::kthvalue.values", 0}, {"aten::scatter.src_out", 1}, {"aten::scatter.value_out", 1}, {"aten::scatter.reduce_out", 1},
    {"aten::scatter.value_reduce_out", 1}, {"aten::scatter_add.out", 1}, {"aten::scatter_reduce.two_out", 1}, {"aten::index_add.out", 1},
    {"aten::index_copy.out", 1}, {"aten::index_reduce.out", 1}, {"aten::index_fill_.int_Scalar", 1}, {"aten::index_fill_.int_Tensor", 1},
    {"aten::_index_put_impl_", 1}, {"aten::put_", 1}};
  static const std::unordered_set<std::string_view> resized_first{"aten::cat.out", "aten::gather.out", "aten::kthvalue.values",
    "aten::index_add.out", "aten::index_copy.out", "aten::index_reduce.out"};
  static const std::unordered_set<std::string_view> not_in_part{"aten::cumsum.out", "aten::cumprod.out", "aten::_logcumsumexp.out",
    "aten::addmm.out", "aten::renorm.out"};
  if (const auto a = apart.find(p.name); a != apart.end()) p.apart_from = a->second;
  p.no_partial_overlap = p.pointwise || not_in_part.count(p.name);
  p.structured = is_structured(op);
  if (!p.targets.empty()) {
    p.functional = functional_form(op);
    p.pointwise |= p.functional && p.functional->hasTag(at::Tag::pointwise);
    p.no_partial_overlap |= p.pointwise;
    if (p.functional && !is_structured(*p.functional)) p.functional.reset();
    p.casts_output = p.pointwise || s.argumentIndexWithName("dtype").has_value() || p.name == "aten::cat.out";
    static const std::unordered_set<std::string_view> of_output{"aten::sum.IntList_out", "aten::prod.int_out", "aten::mean.out",
                                                                "aten::cumsum.out", "aten::cumprod.out"};
    if (of_output.count(p.name)) p.dtype_of_output = s.argumentIndexWithName("dtype").value();
  }
  static const std::unordered_set<std::string_view> by_columns{"aten::_cholesky_solve_helper", "aten::geqrf",
                                                               "aten::linalg_householder_product", "aten::linalg_solve_triangular",
                                                               "aten::ormqr"};
  p.by_columns = by_columns.count(s.name()) != 0;
  if (const auto check = s.argumentIndexWithName("check_errors"); check && !p.targets.empty()) {
    p.check_errors = *check;
    const std::string base = s.name().substr(s.name().find("linalg_") + 7);  // "lu_factor_ex"
    p.name_in_errors = (base == "cholesky_ex" || base == "inv_ex" ? "linalg." : "torch.linalg.") + base;
  }
  p.apart_in_itself = p.pointwise || (p.apart_from >= 0 && !p.targets.empty() && !resized_first.count(p.name));
  p.index_put = p.name == "aten::_index_put_impl_";
  p.fills_mask = s.name().starts_with("aten::masked_fill");
  p.fills_shared = p.index_put || p.name.starts_with("aten::masked_fill_.") || p.name.starts_with("aten::index_fill_.");
  return p;
}

}  // namespace tiny::glue
