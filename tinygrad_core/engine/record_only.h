// While one exists, its thread only adds to the graph: what needs values, a flush or a read, throws Error(NotImplemented). For whoever
// wants to see which graph a program builds.
#pragma once

namespace tiny {

class RecordOnly {
 public:
  RecordOnly() { ++depth(); }
  ~RecordOnly() { --depth(); }
  RecordOnly(const RecordOnly&) = delete;
  static bool active() { return depth() > 0; }
  /// Throws if this thread only records.
  static void refuse(const char* what);

 private:
  static int& depth();
};

}  // namespace tiny
