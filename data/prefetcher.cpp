#include "data/prefetcher.h"

#include <utility>

namespace heddle {

Prefetcher::Prefetcher(std::function<Batch(int64_t index)> fetch, int64_t first_index)
    : fetch_(std::move(fetch)),
      thread_([this, first_index](const std::stop_token& stop) { work(stop, first_index); }) {}

void Prefetcher::work(const std::stop_token& stop, int64_t index) {
  try {
    for (;; ++index) {
      Batch batch = fetch_(index);
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [this] { return !ready_.has_value(); })) return;
      ready_ = std::move(batch);
      changed_.notify_all();
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
    changed_.notify_all();
  }
}

Batch Prefetcher::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ready_.has_value() || error_ != nullptr; });
  if (!ready_.has_value()) std::rethrow_exception(error_);
  Batch batch = std::move(*ready_);
  ready_.reset();
  changed_.notify_all();
  return batch;
}

}  // namespace heddle
