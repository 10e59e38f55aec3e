// How the state of a trained LOOM model moves from loop to loop: what a run is read beside.
#pragma once

namespace heddle {

struct PublishedState {
  double update_rms, cosine_back;
};

/// 329M parameters, 9 loops, step 5000: RMS of the update of loops 1 to 9 (the state's own RMS is 1) and cosine with
/// the state before. Source: LOOM release, tools/animations (github.com/pixeli99/loom).
inline constexpr PublishedState kLoomStates[] = {{1.173, 0.226}, {0.342, 0.939}, {0.894, 0.595},
                                                 {0.196, 0.980}, {0.122, 0.992}, {0.159, 0.987},
                                                 {0.209, 0.977}, {0.122, 0.992}, {0.194, 0.980}};
/// The same without the residual scale: the state is rewritten in every loop.
inline constexpr PublishedState kLoomStatesUnscaled[] = {{1.621, 0.172}, {1.136, 0.351}, {1.166, 0.314},
                                                         {1.254, 0.211}, {1.023, 0.469}, {1.163, 0.318},
                                                         {1.252, 0.213}, {1.021, 0.472}, {1.163, 0.318}};
inline constexpr int kPublishedLoops = 9;

}  // namespace heddle
