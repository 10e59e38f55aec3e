// Calls of MPI in which the host waits while the device must go on: a real GPU works by itself, and another rank may
// wait for its part of an exchange.
#pragma once

namespace cuda_emulation {

/// Does nothing. Whoever calls it gets host_calls.cpp linked in front of MPI.
void link_host_calls();

}  // namespace cuda_emulation
