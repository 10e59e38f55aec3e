// Data parallel x expert parallel. World rank r has expert-parallel index r % expert_parallel and replica
// r / expert_parallel: the ranks of one expert-parallel group are neighbours and split the experts between them; ranks
// with the same index hold the same experts and are each other's replicas.
#pragma once

#include <cstdint>
#include <memory>

#include "comm/communicator.h"

namespace heddle {

struct ExpertRange {
  int64_t first = 0;
  int64_t count = 0;
};

class ProcessGroups {
 public:
  /// Refuses an expert_parallel that does not divide the ranks, naming the valid choices. Collective over world.
  /// `world` must outlive the groups.
  ProcessGroups(Communicator& world, int expert_parallel);
  /// Groups made by hand.
  ProcessGroups(Communicator& world, std::unique_ptr<Communicator> expert_parallel,
                std::unique_ptr<Communicator> expert_replicas);

  Communicator& world() { return world_; }
  Communicator& expert_parallel() { return *expert_parallel_; }  ///< ranks among which tokens travel
  Communicator& expert_replicas() { return *expert_replicas_; }  ///< ranks that hold the same experts

  /// Parts in which the tokens of a micro-batch travel to their experts: while one part is on its way, the experts
  /// compute another.
  int64_t exchange_chunks() const { return exchange_chunks_; }
  void set_exchange_chunks(int64_t chunks) { exchange_chunks_ = chunks; }

  /// Contiguous experts of this rank; refuses a number that expert_parallel does not divide.
  ExpertRange owned_experts(int64_t experts) const;

 private:
  Communicator& world_;
  std::unique_ptr<Communicator> expert_parallel_;
  std::unique_ptr<Communicator> expert_replicas_;
  int64_t exchange_chunks_ = 1;
};

/// Throws UsageError unless expert_parallel divides both ranks and experts; lists the choices that do.
void check_layout(int ranks, int expert_parallel, int64_t experts);

}  // namespace heddle
