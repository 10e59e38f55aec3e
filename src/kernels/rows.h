// Moving rows between token order and expert order. Slots are (token, expert) pairs; slot_row tells the row a slot
// reads. The way back is given as lists: row r owns entries row_begin[r] .. row_begin[r+1] of `slot`.
#pragma once

#include "kernels/types.h"

namespace heddle {

/// y[i,:] = x[row[i],:], i < count.
using GatherRows = void(int64_t count, int64_t width, const int64_t* row, ConstReals x, Reals y);

/// out[r,:] = sum over the row's entries e of weight[slot[e]] * y[slot[e],:] in list order (weight nullptr: 1);
/// accumulate adds to out, otherwise a row without entries becomes zero. row_begin has rows + 1 entries.
using SumSlots = void(int64_t rows, int64_t width, const int64_t* row_begin, const int64_t* slot, const float* weight,
                      ConstReals y, bool accumulate, Reals out);

/// Backward of the weighted SumSlots: dy[s,:] = weight[s] * dout[row[s],:], dweight[s] = dout[row[s],:] . y[s,:],
/// for slots s < count. dy may be y.
using SumSlotsBackward = void(int64_t count, int64_t width, const int64_t* row, const float* weight, ConstReals y,
                              ConstReals dout, Reals dy, float* dweight);

/// y[place[i]] = x[i], i < count; the places differ.
using Scatter = void(int64_t count, const int64_t* place, const float* x, float* y);

}  // namespace heddle
