#include "nccl/exchange.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "nccl/reduction.h"
#include "runtime/allocations.h"
#include "runtime/failure.h"
#include "runtime/sanitizers.h"

namespace cuda_emulation {

namespace {

constexpr auto kTimeBetweenLooks = std::chrono::milliseconds(20);

PayloadFile& payload(ncclComm* communicator, int rank) {
  return communicator->payloads[static_cast<size_t>(rank)];
}

}  // namespace

Exchange::Exchange(ncclComm* communicator, int device, std::vector<NcclCall> calls)
    : communicator_(communicator), device_(device) {
  for (const NcclCall& call : calls) {
    if (is_collective(call)) {
      collectives_.push_back(call);
      continue;
    }
    uint64_t& begun =
        call.kind == CallKind::kSend ? communicator->sends_begun[call.peer] : communicator->receives_begun[call.peer];
    messages_.push_back({call, begun++});
  }
}

void Exchange::start() {
  ++communicator_->operations_started;
  for (const NcclCall& call : collectives_) check_operands(call);
  for (const Message& message : messages_) check_operands(message.call);
  deadline_ = ncclComm::Clock::now() + patience();
}

bool Exchange::is_done() {
  const UnwatchedScope unwatched;  // the streams' threads share what follows
  if (communicator_->aborted) {
    end();
    return true;
  }
  bool progressed = false;
  while (next_collective_ < collectives_.size()) {
    if (!collective_posted_) post_collective();
    if (!finish_collective()) {
      look_after_peers(progressed);
      return false;
    }
    progressed = true;
  }
  bool all = true;
  for (Message& message : messages_) {
    progressed |= advance(message);
    all &= message.done;
  }
  if (!all) {
    look_after_peers(progressed);
    return false;
  }
  end();
  return true;
}

void Exchange::end() {
  ++communicator_->operations_done;
}

void Exchange::check_operands(const NcclCall& call) const {
  // No strings while this thread counts as a stream's: their functions are the program's, which ThreadSanitizer
  // watches.
  char sent[sizeof(RankRecord::last_call) + 32], received[sizeof(sent)];
  {
    const UnwatchedScope unwatched;
    snprintf(sent, sizeof(sent), "NCCL %s: sent data", describe(call).c_str());
    snprintf(received, sizeof(received), "NCCL %s: result", describe(call).c_str());
  }
  const int rank = communicator_->rank, size = communicator_->size;
  check_device_operand(device_, call.sent, sent_bytes(call, rank, size), false, sent);
  check_device_operand(device_, call.received, received_bytes(call, rank, size), true, received);
}

void Exchange::set_last_call(const NcclCall& call) {
  char* const text = communicator_->mine().last_call;
  snprintf(text, sizeof(RankRecord::last_call), "%s", describe(call).c_str());
}

void Exchange::post_collective() {
  const NcclCall& call = collectives_[next_collective_];
  RankRecord& mine = communicator_->mine();
  const size_t bytes = sent_bytes(call, communicator_->rank, communicator_->size);
  const uint64_t offset = payload(communicator_, communicator_->rank).write(call.sent, bytes);
  collective_number_ = communicator_->collectives_begun++;
  communicator_->lent.push_back({collective_number_, offset, bytes});
  mine.posts[collective_number_ % RankRecord::kPosts] = {call, offset, bytes};
  mine.collectives_posted.store(collective_number_ + 1, std::memory_order_release);
  set_last_call(call);
  collective_posted_ = true;
}

bool Exchange::finish_collective() {
  const NcclCall& call = collectives_[next_collective_];
  bool all = true;
  for (int rank = 0; rank < communicator_->size; ++rank) {
    RankRecord& record = communicator_->record(rank);
    if (record.collectives_posted.load(std::memory_order_acquire) > collective_number_)
      compare_with_peer(call, rank, record.posts[collective_number_ % RankRecord::kPosts].call);
    else
      all = false;
  }
  if (!all) return false;
  take_results(call);
  communicator_->mine().collectives_taken.store(collective_number_ + 1, std::memory_order_release);
  drop_what_was_read(*communicator_);
  ++next_collective_;
  collective_posted_ = false;
  return true;
}

void Exchange::compare_with_peer(const NcclCall& mine, int peer, const NcclCall& other) const {
  if (mine.kind == other.kind && mine.count == other.count && mine.type == other.type &&
      mine.operation == other.operation && mine.peer == other.peer)
    return;
  fail("NCCL calls of the ranks differ: collective %llu is %s on rank %d and %s on rank %d",
       static_cast<unsigned long long>(collective_number_), describe(mine).c_str(), communicator_->rank,
       describe(other).c_str(), peer);
}

void Exchange::take_results(const NcclCall& call) {
  const int rank = communicator_->rank, size = communicator_->size;
  const size_t bytes = call.count * bytes_of(call.type);
  if (received_bytes(call, rank, size) == 0) return;
  auto* const result = static_cast<char*>(call.received);
  const auto read = [&](int from, uint64_t skipped, void* to) {
    const Post& post = communicator_->record(from).posts[collective_number_ % RankRecord::kPosts];
    payload(communicator_, from).read(post.offset + skipped, to, bytes);
  };
  const uint64_t share = static_cast<uint64_t>(rank) * bytes;
  switch (call.kind) {
    case CallKind::kBroadcast:
      read(call.peer, 0, result);
      break;
    case CallKind::kAllGather:
      for (int from = 0; from < size; ++from) read(from, 0, result + static_cast<size_t>(from) * bytes);
      break;
    case CallKind::kAllToAll:
      for (int from = 0; from < size; ++from) read(from, share, result + static_cast<size_t>(from) * bytes);
      break;
    default: {
      // Reductions add in rank order; the orders of real GPUs are many.
      const uint64_t skipped = call.kind == CallKind::kReduceScatter ? share : 0;
      std::vector<char> values(bytes);
      read(0, skipped, result);
      for (int from = 1; from < size; ++from) {
        read(from, skipped, values.data());
        reduce_elements(result, values.data(), call.count, call.type, call.operation);
      }
      if (call.operation == ncclAvg) divide_elements(result, call.count, call.type, size);
    }
  }
}

bool Exchange::advance(Message& message) {
  if (message.done) return false;
  return message.call.kind == CallKind::kSend ? advance_send(message) : advance_receive(message);
}

bool Exchange::advance_send(Message& message) {
  const int me = communicator_->rank, peer = message.call.peer;
  PairRecord& pair = communicator_->control->pairs[me][peer];
  const uint64_t taken = pair.taken.load(std::memory_order_acquire);
  if (!message.posted) {
    if (pair.posted.load(std::memory_order_relaxed) != message.number) return false;
    if (message.number >= taken + PairRecord::kPosts) return false;
    const size_t bytes = sent_bytes(message.call, me, communicator_->size);
    message.offset = payload(communicator_, me).write(message.call.sent, bytes);
    pair.posts[message.number % PairRecord::kPosts] = {message.call, message.offset, bytes};
    pair.posted.store(message.number + 1, std::memory_order_release);
    set_last_call(message.call);
    message.posted = true;
    return true;
  }
  if (taken <= message.number) return false;
  payload(communicator_, me).drop(message.offset, sent_bytes(message.call, me, communicator_->size));
  message.done = true;
  return true;
}

bool Exchange::advance_receive(Message& message) {
  const int me = communicator_->rank, peer = message.call.peer;
  PairRecord& pair = communicator_->control->pairs[peer][me];
  set_last_call(message.call);
  if (pair.taken.load(std::memory_order_relaxed) != message.number) return false;
  if (pair.posted.load(std::memory_order_acquire) <= message.number) return false;
  const Post& post = pair.posts[message.number % PairRecord::kPosts];
  const size_t bytes = received_bytes(message.call, me, communicator_->size);
  if (post.call.type != message.call.type || post.bytes != bytes)
    fail("NCCL messages differ: rank %d calls %s and rank %d %s", me, describe(message.call).c_str(), peer,
         describe(post.call).c_str());
  payload(communicator_, peer).read(post.offset, message.call.received, bytes);
  pair.taken.store(message.number + 1, std::memory_order_release);
  message.done = true;
  return true;
}

bool Exchange::waits_for(int rank) const {
  if (rank == communicator_->rank) return false;
  if (collective_posted_)
    return communicator_->record(rank).collectives_posted.load(std::memory_order_acquire) <= collective_number_;
  return std::any_of(messages_.begin(), messages_.end(),
                     [rank](const Message& message) { return !message.done && message.call.peer == rank; });
}

void Exchange::look_after_peers(bool progressed) {
  const auto now = ncclComm::Clock::now();
  if (now >= next_look_) {
    next_look_ = now + kTimeBetweenLooks;
    for (int rank = 0; rank < communicator_->size; ++rank)
      if (waits_for(rank) && is_lost(*communicator_, rank)) communicator_->async_error = ncclRemoteError;
  }
  if (progressed) deadline_ = now + patience();
  if (now < deadline_) return;
  fail("rank %d of %d waited too long in NCCL for its peers%s\n%s", communicator_->rank, communicator_->size,
       communicator_->async_error != ncclSuccess ? ", of which one is lost" : "",
       state_of_ranks(*communicator_).c_str());
}

}  // namespace cuda_emulation
