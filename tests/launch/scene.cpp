#include "launch/scene.h"

#include <hdf5.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "support/atomic_file.h"
#include "support/error.h"
#include "support/hdf5.h"

namespace heddle::testing {

namespace fs = std::filesystem;

namespace {

constexpr const char* kSmall = R"([data]
store = store.h5
[model]
hidden_size = 16
layers = 1
loops = 2
query_heads = 2
kv_heads = 1
head_dim = 8
[moe]
experts = 4
intermediate = 8
[train]
steps = 3
global_batch = 2
micro_batch = 2
sequence_length = 16
[run]
device = cpu
)";

void write(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

/// A dataset, or a group with all that is in it.
void remove_object(const std::string& path, const char* name) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const bool removed = file >= 0 && H5Ldelete(file, name, H5P_DEFAULT) >= 0;
  H5Fclose(file);
  if (!removed) throw std::runtime_error(fmt::format("{} holds no {}", path, name));
}

template <typename Number>
void change_first_value(const std::string& path, const char* dataset, h5::Type type, Number value) {
  h5::File file(path, h5::File::Mode::kReadWrite);
  std::vector<Number> values = file.read<Number>(dataset);
  values.at(0) = value;
  file.write_rows(dataset, type, 0, file.extent(dataset).at(0), values.data());
}

/// One logit of a case.
void change_logit(const std::string& folder) {
  change_first_value<float>(folder + "/case.h5", "/forward/logits", h5::Type::kFloat32, 99);
}

std::string documents(const char* pattern, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += fmt::format(fmt::runtime(pattern), i) + "\n\n";
  return text;
}

}  // namespace

Scene::Scene() {
  std::string pattern = (fs::temp_directory_path() / "heddle-scene-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
  root_ = pattern;
  for (const char* folder : {"text", "scratch", "case", "family"}) fs::create_directories(path(folder));
  write(path("text/a.txt"), documents("The weaver threads heddle number {} and lifts the warp.", 200));
  write(path("text/b.txt"), documents("Another tale, told {} times.", 100));
  write(path("small.ini"), kSmall);
  const std::pair<const char*, const char*> cases[] = {{"golden/loom_r1", "case"},
                                                       {"golden_family/moe_top1_softmax_r3", "family"}};
  for (const auto& [from, to] : cases)
    for (const char* name : {"config.json", "case.h5"}) {
      const fs::path file = fs::path(path(to)) / name;
      fs::copy_file(fs::path(HEDDLE_SOURCE_DIR) / "tests" / from / name, file);
      fs::permissions(file, fs::perms::owner_write, fs::perm_options::add);
    }
  for (const char* command : {"$H data build text/a.txt -o store.h5 --data.tokenizer bytes --data.split blank_lines "
                              "--data.validation_fraction 0.1",
                              "$H data build text/a.txt -o whole.h5 --data.tokenizer bytes",
                              "$H data build text/b.txt -o other.h5 --data.tokenizer bytes --data.split blank_lines",
                              "$H train --config small.ini --run.directory run"}) {
    const Outcome made = run(command);
    if (made.status != 0) throw std::runtime_error(fmt::format("{}\n{}", command, made.output));
  }
  fs::copy(path("case"), path("changed"));
  change_logit(path("changed"));
  fs::copy(path("family"), path("changed_family"));
  change_logit(path("changed_family"));
  for (const char* group : {"forward", "train"}) {
    const std::string folder = path(std::string("no_") + group);
    fs::copy(path("case"), folder);
    remove_object(folder + "/case.h5", (std::string("/") + group).c_str());
  }
  for (const auto& [name, dataset] :
       {std::pair("extra", "/grads/foo"), std::pair("extra_final", "/params_final/foo")}) {
    fs::copy(path("family"), path(name));
    h5::File(path(name) + "/case.h5", h5::File::Mode::kReadWrite)
        .write<float>(dataset, {2}, std::span<const float>(std::array<float, 2>{1, 2}));
  }
  const char* const tensor = "core.0.attn.v_proj.weight";
  for (const auto& [name, group] : {std::pair("no_tensor", "/params_step1/"), std::pair("no_gradient", "/grads/")}) {
    fs::copy(path("family"), path(name));
    remove_object(path(name) + "/case.h5", (std::string(group) + tensor).c_str());
  }
  fs::copy(path("family"), path("no_loops"));
  remove_object(path("no_loops/case.h5"), "/train/loops");
  const std::pair<const char*, int32_t> loops[] = {{"loops_0", 0}, {"loops_2000", 2000}, {"loops_-1", -1}};
  for (const auto& [name, count] : loops) {
    fs::copy(path("family"), path(name));
    for (const char* dataset : {"/train/loops", "/eval/loops"})
      change_first_value<int32_t>(path(name) + "/case.h5", dataset, h5::Type::kInt32, count);
  }
  fs::copy(path("run/checkpoints/step_00000003.h5"), path("no_moment.h5"));
  remove_object(path("no_moment.h5"), "/optimizer/second/embed_tokens.weight");
}

Scene::~Scene() {
  std::error_code ignored;
  fs::remove_all(root_, ignored);
}

Outcome Scene::run(const std::string& command) const {
  fs::remove_all(path("scratch"));
  fs::create_directories(path("scratch"));
  const std::string script = path("scratch/.command");
  write(script, command + "\n");
  const std::string line = fmt::format(
      "cd '{}' && H='{}' MPIRUN='{}/launch/heddle-mpirun' OMP_NUM_THREADS=1 timeout -k 5 60 sh '{}' 2>&1 </dev/null",
      root_, HEDDLE_PROGRAM, HEDDLE_SOURCE_DIR, script);
  std::FILE* pipe = popen(line.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("popen failed");
  Outcome outcome;
  std::array<char, 4096> buffer;
  for (size_t got; (got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    outcome.output.append(buffer.data(), got);
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

std::map<std::string, std::string> Scene::content() const {
  std::map<std::string, std::string> files;
  for (auto entry = fs::recursive_directory_iterator(root_); entry != fs::recursive_directory_iterator(); ++entry) {
    if (entry->path() == path("scratch"))
      entry.disable_recursion_pending();
    else
      files[fs::relative(entry->path(), root_).string()] =
          entry->is_directory() ? "folder" : read_text_file(entry->path().string());
  }
  return files;
}

}  // namespace heddle::testing
