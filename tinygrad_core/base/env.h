// Environment switches, from env.def. Read once, at the first look; tests override them in a scope.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace tiny {

enum class Env : uint8_t {
#define ENV(name, fallback, meaning) name,
#include "base/env.def"
  count
};

struct EnvInfo {
  const char* name;
  const char* fallback;
  const char* meaning;
};
const EnvInfo& info(Env e);

/// The switch's text: the environment's, else the default. An empty variable counts as unset.
std::string env_text(Env e);
/// The switch as an integer; throws Error(Value) naming the variable if its text is none.
int64_t env_int(Env e);
inline bool env_flag(Env e) { return env_int(e) != 0; }

/// Gives a switch another value until the scope ends. For tests; not for two threads at once.
class EnvScope {
 public:
  EnvScope(Env e, std::string_view value);
  ~EnvScope();
  EnvScope(const EnvScope&) = delete;

 private:
  Env switch_;
  std::string previous_;
};

/// Name, default and meaning of every switch, one a line.
std::string env_help();

}  // namespace tiny
