#include "errors.h"

namespace tiny::glue {

[[noreturn]] void raise_as_torch(const Error& error) {
  const c10::SourceLocation here{__func__, __FILE__, static_cast<uint32_t>(__LINE__)};
  std::string text = error.what();
  switch (error.kind) {
    case ErrorKind::Index: throw c10::IndexError(here, std::move(text));
    case ErrorKind::Type: throw c10::TypeError(here, std::move(text));
    case ErrorKind::OutOfMemory: throw c10::OutOfMemoryError(here, std::move(text));
    case ErrorKind::NotImplemented: throw c10::NotImplementedError(here, std::move(text));
    case ErrorKind::Argument: throw c10::ValueError(here, std::move(text));
    case ErrorKind::Value:
    case ErrorKind::Runtime:
    case ErrorKind::Compile: break;
  }
  constexpr std::string_view matrix = "LinAlgError: ";  // of a check of linear algebra, found at a read
  if (text.starts_with(matrix)) throw c10::LinAlgError(here, text.substr(matrix.size()));
  throw c10::Error(here, std::move(text));
}

}  // namespace tiny::glue
