#include "engine/record_only.h"

#include <string>

#include "base/error.h"

namespace tiny {

int& RecordOnly::depth() {
  static thread_local int n = 0;
  return n;
}

void RecordOnly::refuse(const char* what) {
  if (active()) throw Error(ErrorKind::NotImplemented, std::string("a program that is recorded needs values (") + what + ")");
}

}  // namespace tiny
