// What a resumed run may change: nothing that makes another function of the weights or shifts the data; everything else
// is allowed, and said.
#pragma once

#include <string>
#include <vector>

namespace heddle {

/// Compares the configuration of a checkpoint with the present one, both as INI text; `path` names the checkpoint.
/// Throws UsageError for a key that must stay. Returns "key old -> new" for every other key of training that changed.
/// Left out are keys that change nothing of what is still to be learned: [run], [layout], [initialisation], and those
/// that nothing reads in either configuration.
std::vector<std::string> compare_resumed_config(const std::string& path, const std::string& before,
                                                const std::string& now);

}  // namespace heddle
