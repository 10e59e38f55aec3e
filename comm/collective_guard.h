// A debugging guard: before every collective call, all ranks of the job compare what they are about to do, and a
// difference ends the job with the first call that differs named, instead of a hang or of rows in the wrong place.
// It presumes what Heddle's ranks keep to: all make the same calls in the same order, on whatever communicator.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.h"

namespace heddle {

/// Where this rank is, for messages. Written by the training step and the model; -1: not inside one.
struct CollectivePlace {
  int64_t step = -1, segment = -1, loop = -1, layer = -1;
  const char* phase = "";  ///< "forward", "backward", ...
};
CollectivePlace& collective_place();
std::string text_of(const CollectivePlace& place);  ///< "step 3, segment 0, loop 1, layer 2, backward", as far as known

/// The communicator with the guard in front; so are those that are split from it. `world` must outlive it.
std::unique_ptr<Communicator> guard_collectives(Communicator& world);

}  // namespace heddle
