// A temporary folder that all ranks of a test see.
#pragma once

#include "tests/data/temporary_folder.h"
#include "tests/distributed/world.h"

namespace heddle {

/// Rank 0's temporary folder, known to all; removed when all are done.
class SharedFolder {
 public:
  SharedFolder() : path_(all_gather_text(test_world(), own_.path())[0]) {}
  ~SharedFolder() { test_world().barrier(); }
  std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  TemporaryFolder own_;
  std::string path_;
};

}  // namespace heddle
