// Prepares the next batch in a thread of its own while the present one is used.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "data/loader.h"

namespace heddle {

/// next() returns fetch(first_index), fetch(first_index + 1), ... in this order. `fetch` runs in the thread and must
/// not use HDF5 (Loader::fetch reads the memory map only). An exception in it comes out of the next() that would have
/// returned its batch, and again of every later one.
class Prefetcher {
 public:
  Prefetcher(std::function<Batch(int64_t index)> fetch, int64_t first_index);
  Batch next();

 private:
  void work(const std::stop_token& stop, int64_t index);

  std::function<Batch(int64_t)> fetch_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<Batch> ready_;
  std::exception_ptr error_;
  std::jthread thread_;  // last: it is joined before the members that it uses go
};

}  // namespace heddle
