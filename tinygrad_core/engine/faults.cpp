#include "engine/faults.h"

#include <algorithm>
#include <utility>

#include "base/buffer.h"

namespace tiny {

const Fault* Faults::of(uint64_t flush, bool suspect) const {
  for (const Fault& f : faults_)
    if (flush >= f.from && flush <= f.to && (suspect || f.all)) return &f;
  return nullptr;
}

void Faults::look(const ErrorRecord& record, uint64_t last) {
  uint64_t from = std::exchange(unchecked_from_, 0);
  if (!record.fault) return;
  std::string text = check_text(record.fault);
  const ErrorKind kind = take_check_kind(&text);
  for (int64_t number : {record.value, record.limit}) {  // the text names the index first, then the limit
    size_t at = text.find("{}");
    if (at != std::string::npos) text.replace(at, 2, std::to_string(number));
  }
  faults_.push_back({from, last, false, kind, text});
}

void Faults::queue_failed(const Error& error, uint64_t last) {
  faults_.push_back({trusted_ + 1, last, true, error.kind, error.what()});
  trusted_ = last;
}

std::vector<int> Faults::states(const Walk& walk) const {
  auto of_buffer = [&](const Buffer& b) -> int {
    if (!b.suspect) return Good;
    if (const Fault* f = of(b.suspect, true)) return Spoiled + static_cast<int>(f - faults_.data());
    return unchecked_from_ && b.suspect >= unchecked_from_ ? Suspect : Good;
  };
  if (std::all_of(walk.leaves.begin(), walk.leaves.end(), [&](const Leaf& l) { return of_buffer(*l.buffer) == Good; })) return {};
  std::vector<int> state(walk.nodes.size(), Good);
  for (size_t i = 0; i < walk.nodes.size(); ++i) {
    UOp* u = walk.nodes[i];
    if (u->is(Op::BUFFER)) state[i] = of_buffer(*u->arg.buf);
    for (UOp* s : u->sources()) state[i] = std::max(state[i], state[s->slot]);
  }
  return state;
}

}  // namespace tiny
