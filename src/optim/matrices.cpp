#include "optim/matrices.h"

namespace heddle {

Matrices matrices_of(const Parameter& p) {
  const Shape& shape = p.local_shape;
  Matrices m;
  if (shape.size() == 3) {
    require(p.pieces == 1, "parameter '{}' has three axes and {} pieces", p.name, p.pieces);
    m = {shape[0], shape[1], shape[2], shape[2], shape[1] * shape[2], p.first, p.global_shape[0]};
    return m;
  }
  require(shape.size() == 2 && (p.piece_axis == 0 || p.piece_axis == 1) && p.pieces > 0 &&
              shape[static_cast<size_t>(p.piece_axis)] % p.pieces == 0,
          "parameter '{}' of shape {} is not {} equal matrices along axis {}", p.name, shape_text(shape), p.pieces,
          p.piece_axis);
  m.count = m.global_count = p.pieces;
  m.rows = p.piece_axis == 0 ? shape[0] / p.pieces : shape[0];
  m.columns = p.piece_axis == 1 ? shape[1] / p.pieces : shape[1];
  m.leading = shape[1];
  m.step = p.piece_axis == 0 ? m.elements() : m.columns;
  return m;
}

}  // namespace heddle
