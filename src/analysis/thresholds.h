// The limits of the diagnosis, each with its source; docs/diagnosing.md explains them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heddle::thresholds {

// --- what is looked at

/// The window: long enough to smooth, short enough to describe the present.
inline constexpr size_t kWindowShare = 4;
inline constexpr size_t kLongestWindow = 100;
/// Shorter logs show the start of a run, not its course.
inline constexpr size_t kFewSteps = 20;
/// The routers of all loops start as copies (LOOM release): overlap means little before this share of the run.
inline constexpr double kEarlyShare = 0.1;

// --- experts

/// Half of the information that a uniform choice carries. Ours.
inline constexpr double kCollapsedEntropy = 0.5;
/// One expert takes every second slot. Ours; only where that is more than twice its even share 1 / E.
inline constexpr double kOverloadedShare = 0.5;
/// An expert that expects so many slots and gets none is no accident: with even odds, e^-100.
inline constexpr double kExpectedLoad = 100;

// --- loops that choose alike

/// Within so much of 1, or of the counterfactual. 0.05 of k = 6 is a third of an expert; consecutive loops of LOOM's
/// 1.7B model share 0.16 to 0.69 (its routing trace, layers 1 and 15).
inline constexpr double kSameChoice = 0.05;
/// An effect below two standard errors is not told from none: 95 % of a normal distribution.
inline constexpr double kStandardErrors = 2;

// --- the state

/// RMS of the stream in a later visit of a layer over its first; scaled residuals keep it near 1. Ours.
inline constexpr double kStateGrowth = 4;
/// Frozen: relative updates of LOOM's 329M model at 9 loops end at 0.12 to 0.21 and never fall below 0.12 (its state
/// trace); less than half of that, with a cosine beyond its largest, 0.992.
inline constexpr double kFrozenUpdate = 0.06;
inline constexpr double kFrozenCosine = 0.995;
/// Drifting: without the residual scale the same model rewrites its state in every loop (relative updates 1.02 to 1.25,
/// cosines 0.21 to 0.47); with it, from loop 4 on, 0.12 to 0.21 and 0.977 to 0.992. Between the two.
inline constexpr double kDriftingUpdate = 0.6;
inline constexpr double kDriftingCosine = 0.7;
/// The first loops of a healthy model move as much (0.89 in loop 3), so that drift is judged from here on.
inline constexpr int64_t kSettledLoop = 4;
/// Tokens that all point one way carry nothing of their own. Ours.
inline constexpr double kSameTokens = 0.98;

// --- the course of the run

/// Two windows of ten steps, and as many between them.
inline constexpr size_t kStallSteps = 40;
/// Share of steps without an update. Ours.
inline constexpr double kManySkips = 0.01;

// --- gradients

/// DeepLoop: updates of a tied core stay bounded while M kappa s^2 = O(1); its choice p = 1/2 keeps it at 1/8 or less.
inline constexpr double kAlignedBound = 1;

}  // namespace heddle::thresholds
