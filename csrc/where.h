// The user's Python line that caused a flush.
#pragma once
#include <string>
#include <vector>

namespace tiny::glue {

/// Files that start with one of these are not the user's (torch, torch_tiny).
void set_library_folders(std::vector<std::string> prefixes);

/// Remembers, for the flushes that this thread causes next, the innermost Python line outside the libraries: "train.py:12". Takes the GIL
/// for a moment, so call it without the graph lock.
void note_where();

/// Gives note_where()'s line to the engine. Takes no lock.
void install_where_hook();

}  // namespace tiny::glue
