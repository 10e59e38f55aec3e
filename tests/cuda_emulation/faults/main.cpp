// One ctest entry per fault: the fault and its healthy twin each run in a process of their own.
//   cuda_faults [GoogleTest options]      the tests
//   cuda_faults --run NAME faulty|healthy one of them, as the tests start it and as one debugs it
//   cuda_faults --table                   the table of docs/cuda_kernels.md
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "cuda_emulation/faults/fault.h"
#include "support/error.h"

namespace heddle::cuda {

void expect_values(const std::vector<float>& found, const std::vector<float>& expected) {
  for (size_t i = 0; i < expected.size(); ++i)
    if (std::isnan(found[i]) || found[i] != expected[i])
      fail("wrong value: {} at {}, expected {}", std::isnan(found[i]) ? "NaN" : std::to_string(found[i]), i,
           expected[i]);
}

float* device_values(const std::vector<float>& values) {
  auto* const device = static_cast<float*>(device_malloc(values.size() * sizeof(float)));
  copy_to_device(device, values.data(), values.size() * sizeof(float));
  return device;
}

std::vector<float> host_values(const float* device, size_t count) {
  std::vector<float> values(count);
  copy_to_host(values.data(), device, count * sizeof(float));
  context().synchronize_compute();
  return values;
}

/// GoogleTest's name for it.
void PrintTo(const Fault& fault, std::ostream* stream) {
  *stream << fault.description;
}

namespace {

std::vector<Fault> all_faults() {
  std::vector<Fault> all;
  for (const auto& topic : {barrier_faults(), warp_faults(), shared_memory_faults(), device_memory_faults(),
                            race_faults(), launch_faults(), stream_faults(), cublas_faults(), nccl_faults()})
    all.insert(all.end(), topic.begin(), topic.end());
  return all;
}

/// What this build says; nullptr if it says nothing.
const char* message_of_this_build(const Fault& fault) {
#if defined(__SANITIZE_ADDRESS__)
  return fault.address;
#elif defined(__SANITIZE_THREAD__)
  return fault.thread;
#else
  return fault.plain;
#endif
}

struct Outcome {
  int status;
  std::string output;
};

Outcome run_process(const std::string& name, const char* how) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  // A rank whose peer has failed shall not wait for long.
  const std::string command = "CUDA_EMULATION_NCCL_SECONDS=5 " + program + " --run " + name + " " + how + " 2>&1";
  FILE* const pipe = popen(command.c_str(), "r");
  require(pipe != nullptr, "no process could be started");
  Outcome outcome;
  std::array<char, 4096> buffer;
  for (size_t got; (got = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) outcome.output.append(buffer.data(), got);
  outcome.status = pclose(pipe);
  return outcome;
}

std::vector<Fault> faults_of_this_build() {
  std::vector<Fault> faults = all_faults();
  std::erase_if(faults, [](const Fault& fault) { return message_of_this_build(fault) == nullptr; });
  return faults;
}

std::string name_of(const testing::TestParamInfo<Fault>& instance) {
  return instance.param.name;
}

class CudaFault : public testing::TestWithParam<Fault> {};
class HealthyTwin : public testing::TestWithParam<Fault> {};

TEST_P(CudaFault, IsCaught) {
  const Outcome outcome = run_process(GetParam().name, "faulty");
  const char* message = message_of_this_build(GetParam());
  EXPECT_NE(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find(message), std::string::npos) << "expected: " << message << "\n" << outcome.output;
}
INSTANTIATE_TEST_SUITE_P(, CudaFault, testing::ValuesIn(faults_of_this_build()), name_of);

TEST_P(HealthyTwin, Passes) {
  const Outcome outcome = run_process(GetParam().name, "healthy");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(outcome.output, "healthy\n");
}
INSTANTIATE_TEST_SUITE_P(, HealthyTwin, testing::ValuesIn(all_faults()), name_of);

std::string table() {
  std::ostringstream text;
  const auto mark = [](const char* message) { return message != nullptr ? "yes" : "-"; };
  text << "| what is wrong | plain | address | thread | test |\n|---|---|---|---|---|\n";
  for (const Fault& fault : all_faults())
    text << "| " << fault.description << " | " << mark(fault.plain) << " | " << mark(fault.address) << " | "
         << mark(fault.thread) << " | `" << fault.name << "` |\n";
  return text.str();
}

TEST(CudaFaultTable, StandsInTheDocumentation) {
  std::ifstream file(HEDDLE_SOURCE_DIR "/docs/cuda_kernels.md");
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find(table()), std::string::npos)
      << "docs/cuda_kernels.md must hold this table (cuda_faults --table prints it):\n"
      << table();
}

int run_fault(const std::string& name, const std::string& how) {
  for (const Fault& fault : all_faults()) {
    if (fault.name != name) continue;
    create_context({.cublas_workspace_bytes = 1 << 20});
    fault.run(how == "faulty");
    context().synchronize_compute();
    context().synchronize_communication();
    destroy_context();
    std::printf("%s\n", how.c_str());
    return 0;
  }
  std::fprintf(stderr, "error: there is no fault '%s'\n", name.c_str());
  return 2;
}

}  // namespace

}  // namespace heddle::cuda

int main(int argc, char** argv) {
  using namespace heddle::cuda;
  const std::string first = argc > 1 ? argv[1] : "";
  try {
    if (first == "--run" && argc == 4) return run_fault(argv[2], argv[3]);
  } catch (const heddle::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  if (first == "--table") {
    std::printf("%s", table().c_str());
    return 0;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
