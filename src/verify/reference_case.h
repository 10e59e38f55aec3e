// Reference cases: numbers made with other code (docs/reference_cases.md), and how far this build is from them.
// A case is a folder with config.json and case.h5. Under several ranks the rows of the batch are split over them, with
// capacity over all ranks, and the comparison is made over all ranks: every rank gets the same report.
#pragma once

#include <string>
#include <vector>

#include "comm/process_groups.h"
#include "kernels/kernels.h"

namespace heddle {

struct QuantityResult {
  enum class Status { kPass, kFail, kNotChecked };
  std::string quantity;  ///< "forward/logits", "grads", ...
  double error = 0;      ///< largest relative error over its tensors (number of differing entries for exact ones)
  double tolerance = 0;  ///< 0: must be equal
  std::string worst;     ///< tensor with the largest error
  Status status = Status::kNotChecked;
};

struct CaseReport {
  std::string name;
  std::vector<QuantityResult> quantities;
  bool passed() const;
  int64_t checked() const;
  std::vector<std::string> groups() const;  ///< of the case's file that were compared: "forward", "grads", "train", ...
};

/// Runs forward, gradients and training of the case from its initial weights. Throws UsageError for a folder that is
/// not there and for ranks or a layout that the case cannot have, and Error for a folder, configuration or file that is
/// not a case. Collective over world.
CaseReport verify_case(const std::string& folder, Communicator& world, int expert_parallel, const Kernels& kernels);

}  // namespace heddle
