#include "comm/cuda/collective_watch.h"

#include <algorithm>

#include "comm/call_watchdog.h"
#include "cuda/context.h"
#include "cuda/library_error.h"
#include "support/error.h"

namespace heddle {

namespace {
/// Some visits of a layer ahead, with a few hundred launches between them; a stream takes about a thousand.
constexpr size_t kMostUnderWay = 12;
}  // namespace

CollectiveWatch& CollectiveWatch::instance() {
  static CollectiveWatch watch;
  return watch;
}

void CollectiveWatch::add(ncclComm_t communicator) {
  communicators_.push_back(communicator);
  cuda::context().set_watch([this](double waited) { check(waited); });
}

void CollectiveWatch::remove(ncclComm_t communicator) {
  std::erase(communicators_, communicator);
  if (!communicators_.empty()) return;
  cuda::context().set_watch(nullptr);
  for (const Call& call : calls_) cuda::context().release(call.end);
  calls_.clear();
}

void CollectiveWatch::enqueued(const char* operation, int rank, int size) {
  forget_finished();
  calls_.push_back({cuda::context().mark_communication(), operation, rank, size, collective_place()});
  while (calls_.size() > kMostUnderWay) {
    cuda::context().wait_for_mark(calls_.front().end);
    forget_first();
  }
}

void CollectiveWatch::forget_finished() {
  while (!calls_.empty() && cudaEventQuery(calls_.front().end) == cudaSuccess) forget_first();
}

void CollectiveWatch::forget_first() {
  cuda::context().release(calls_.front().end);
  calls_.pop_front();
}

std::string CollectiveWatch::first_unfinished() {
  forget_finished();
  if (calls_.empty()) return "no collective is under way";
  const Call& call = calls_.front();
  return fmt::format("rank {} of {} waits in {} at {}", call.rank, call.size, call.operation, text_of(call.place));
}

void CollectiveWatch::check(double waited) {
  for (const ncclComm_t communicator : communicators_) {
    ncclResult_t state = ncclSuccess;
    cuda::check(ncclCommGetAsyncError(communicator, &state), "ncclCommGetAsyncError");
    if (state == ncclSuccess || state == ncclInProgress) continue;
    give_up(fmt::format("NCCL reports '{}': {}", ncclGetErrorString(state), first_unfinished()),
            "another rank ended or a connection broke; the message of the rank that failed first says why");
  }
  const double timeout = collective_timeout();
  if (timeout <= 0 || waited <= timeout) return;
  const std::string unfinished = first_unfinished();
  if (calls_.empty()) return;  // the GPU computes for so long, or has just ended
  give_up(fmt::format("no end after {:.0f} s (run.collective_timeout): {}", waited, unfinished),
          "another rank hangs or makes other calls: look at its last lines, or use run.check_collectives");
}

}  // namespace heddle
