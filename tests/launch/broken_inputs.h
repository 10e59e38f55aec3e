// Broken inputs through the real program: every one ends with its exit status and a message that says where and what,
// within a minute, without a crash, and without a change to any file that was there.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "launch/scene.h"
#include "support/error.h"

namespace heddle::testing {

struct Row {
  const char* name;
  std::string command;
  int status;  ///< support/error.h: 1 failure, 2 usage or configuration, 3 mismatch
  std::vector<std::string> fragments;
};

class BrokenInputs : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    scene_ = std::make_unique<Scene>();
    before_ = scene_->content();
  }
  static void TearDownTestSuite() { scene_.reset(); }

  static void check(const std::vector<Row>& rows) {
    for (const Row& row : rows) {
      SCOPED_TRACE(fmt::format("{}: {}", row.name, row.command));
      const Outcome found = scene_->run(row.command);
      EXPECT_EQ(found.status, row.status) << found.output;
      for (const std::string& fragment : row.fragments)
        EXPECT_NE(found.output.find(fragment), std::string::npos) << "lacks '" << fragment << "':\n" << found.output;
      if (row.status != 3) {
        EXPECT_NE(found.output.find("error: "), std::string::npos) << found.output;
        EXPECT_NE(found.output.find("hint: "), std::string::npos) << "no hint:\n" << found.output;
      }
      for (const char* crash : {"what():", "terminate called", "Segmentation", "HDF5-DIAG", "Sanitizer"})
        EXPECT_EQ(found.output.find(crash), std::string::npos) << found.output;
      expect_nothing_changed();
    }
  }

  static void expect_nothing_changed() {
    const auto after = scene_->content();
    for (const auto& [file, content] : before_) {
      const auto found = after.find(file);
      if (found == after.end())
        ADD_FAILURE() << file << " is gone";
      else
        EXPECT_TRUE(found->second == content) << file << " has changed";
    }
    for (const auto& [file, content] : after) EXPECT_TRUE(before_.contains(file)) << file << " is new";
  }

  static inline std::unique_ptr<Scene> scene_;
  static inline std::map<std::string, std::string> before_;
};
/// A training start with more flags.
inline std::string train(const std::string& flags) {
  return "$H train --config small.ini --run.directory scratch/new " + flags;
}

}  // namespace heddle::testing
