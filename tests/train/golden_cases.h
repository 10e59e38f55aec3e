// The folders of reference cases under tests/.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace heddle {

/// "golden/loom_r1", ...: five of the LOOM release, fifteen of the family.
inline std::vector<std::string> golden_cases() {
  std::vector<std::string> names;
  for (const char* folder : {"golden", "golden_family"})
    for (const auto& entry : std::filesystem::directory_iterator(std::string(HEDDLE_SOURCE_DIR) + "/tests/" + folder))
      if (entry.is_directory()) names.push_back(std::string(folder) + "/" + entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace heddle
