// What a distributed test gets from the program's main().
#pragma once

#include "comm/job.h"

namespace heddle {

/// The job of this test program; all ranks run the same tests in the same order.
Job& test_job();

/// Its communicator.
inline Communicator& test_world() {
  return test_job().world();
}

}  // namespace heddle
