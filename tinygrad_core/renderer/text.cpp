// The linear list as text, for the interpreter. parse() reads it back, in the same order.
#include "renderer/renderer.h"

namespace tiny {
namespace {

class TextCompiler final : public Compiler {
 public:
  std::string id() const override { return "text 1"; }
  std::string render(const Program& program) override { return print(program.linear); }
  Binary compile(const Program& program) override { return render(program); }
};

}  // namespace

std::unique_ptr<Compiler> make_text_compiler() { return std::make_unique<TextCompiler>(); }

}  // namespace tiny
