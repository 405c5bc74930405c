// C++ text to a shared object, by the host's compiler.
#include <fmt/format.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/env.h"
#include "renderer/c_emit.h"
#include "renderer/failure.h"
#include "renderer/host_caps.h"
#include "renderer/renderer.h"

extern char** environ;

namespace tiny {
namespace {

constexpr const char* kCompilers[] = {"c++", "g++", "clang++"};
// wrapv: integers wrap; the rest keeps arithmetic as written and the object small.
constexpr const char* kFlags[] = {"-x", "c++", "-std=gnu++17", "-O2", "-fPIC", "-shared", "-fno-math-errno", "-ffp-contract=off", "-fwrapv",
                                  "-fno-exceptions", "-fno-rtti", "-fno-stack-protector", "-Wno-psabi", "-w"};

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

/// Runs a program found on PATH, stdout and stderr into `output`; its exit status, or -1 if it cannot be started.
int run(const std::vector<std::string>& command, const std::string& output) {
  std::vector<char*> argv;
  for (const std::string& a : command) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t pid;
  int failed = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed) return -1;
  int status;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// A folder of our own in the system's temporary folder, removed with its files on destruction.
struct TemporaryFolder {
  std::string path;
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tiny_cc_XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw Error(ErrorKind::Runtime, "cannot make a folder " + pattern);
    path = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

class CCompiler final : public Compiler {
 public:
  explicit CCompiler(const Caps& caps) : caps_(caps) {
    TemporaryFolder folder;
    std::string chosen = env_text(Env::TINY_CC), version = folder.path + "/version";
    std::vector<std::string> names(std::begin(kCompilers), std::end(kCompilers));
    if (!chosen.empty()) names = {chosen};
    for (const std::string& name : names) {
      if (run({name, "--version"}, version) != 0) continue;
      compiler_ = name;
      std::ifstream in(version);
      std::getline(in, version_);
      break;
    }
    if (compiler_.empty())
      throw Error(ErrorKind::Runtime, fmt::format("no C++ compiler found ({}); TINY_CC names one", fmt::join(names, ", ")));
    for (const std::string& f : parse_cpu_target(caps.target).features)
      if (std::string_view flag = feature_flag(f); !flag.empty()) features_.emplace_back(flag);
  }

  std::string id() const override { return fmt::format("{} {} {}", compiler_, version_, caps_.target); }

  std::string render(const Program& program) override { return CEmitter(program, caps_).run(); }

  Binary compile(const Program& program) override {
    std::string source = render(program);
    TemporaryFolder folder;
    std::string in = folder.path + "/kernel.cpp", out = folder.path + "/kernel.so", said = folder.path + "/said";
    std::ofstream(in) << source;
    std::vector<std::string> command{compiler_};
    command.insert(command.end(), std::begin(kFlags), std::end(kFlags));
    command.insert(command.end(), features_.begin(), features_.end());
    command.insert(command.end(), {"-o", out, in, "-lm"});
    if (run(command, said) != 0) fail_compile(program.info.name, "cpp", source, read_file(said));
    return read_file(out);
  }

 private:
  Caps caps_;
  std::string compiler_, version_;
  std::vector<std::string> features_;
};

}  // namespace

std::unique_ptr<Compiler> make_c_compiler(const Caps& caps) { return std::make_unique<CCompiler>(caps); }

}  // namespace tiny
