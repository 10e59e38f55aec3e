#include "train/run_files.h"

#include <filesystem>

#include "support/log.h"
#include "support/numbers.h"
#include "train/checkpoint.h"

namespace heddle {

namespace fs = std::filesystem;

std::vector<std::string> find_checkpoints(const std::string& directory, bool resume) {
  std::vector<std::string> ignored;
  std::vector<std::string> complete = complete_checkpoints((fs::path(directory) / "checkpoints").string(), &ignored);
  if (!resume && (!complete.empty() || fs::exists(fs::path(directory) / "log.h5")))
    throw Error(fmt::format("'{}' already holds a run", directory),
                "use --run.resume true to go on with it, or another run.directory");
  for (const std::string& file : ignored) log_warning(fmt::format("ignoring '{}': it is not complete", file));
  if (!resume || !complete.empty()) return complete;
  for (const std::string& file : ignored)
    if (fs::exists(fs::path(file).replace_extension(".complete")))
      throw Error(fmt::format("'{}' is damaged: it is not complete any more, and there is no other checkpoint", file),
                  "copy it again from where it is whole, or start anew in another run.directory");
  log_line("no complete checkpoint yet: starting from step 0");
  return {};
}

void verify_store(const TokenStore& store) {
  constexpr int64_t kVerified = int64_t{1} << 30;
  int64_t bytes = 0;
  for (const Part part : kAllParts)
    if (store.has(part)) bytes += store.tokens(part) * store.token_width();
  if (bytes <= kVerified)
    TokenStore::open(store.path(), true);
  else
    log_line(
        fmt::format("the token store has {} of tokens: its hash is not checked now, heddle inspect '{}' --check "
                    "does that",
                    human_bytes(static_cast<double>(bytes)), store.path()));
}

RunLogWriter open_run_log(const std::string& path, const RunLogHeader& header, int64_t done) {
  if (done == 0 || !fs::exists(path)) return RunLogWriter::create(path, header);
  try {
    return RunLogWriter::resume(path, header, done);
  } catch (const Error& error) {
    throw Error(fmt::format("the run cannot go on with its log: {}", error.what()),
                fmt::format("move '{}' away: the run then goes on from its checkpoint with a new log", path));
  }
}

}  // namespace heddle
