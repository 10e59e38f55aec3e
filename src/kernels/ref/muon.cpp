// Reference of what Muon does to a matrix.
#include <algorithm>
#include <cmath>

#include "kernels/ref/operations.h"

namespace heddle::ref {

void copy_matrix(int64_t rows, int64_t columns, const float* from, int64_t from_leading, float* to,
                 int64_t to_leading) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) to[i * to_leading + j] = from[i * from_leading + j];
}

void normalise_rows(int64_t rows, int64_t columns, float floor, float* x) {
  for (int64_t i = 0; i < rows; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < columns; ++j)
      sum += static_cast<double>(x[i * columns + j]) * static_cast<double>(x[i * columns + j]);
    const double norm = std::max(std::sqrt(sum), static_cast<double>(floor));
    for (int64_t j = 0; j < columns; ++j)
      x[i * columns + j] = static_cast<float>(static_cast<double>(x[i * columns + j]) / norm);
  }
}

void reduce_variance(int64_t rows, int64_t columns, float beta2, float* x, float* second, float* mean_square) {
  if (rows == 0 || columns == 0) return;
  const bool by_row = rows >= columns;
  const int64_t kept = by_row ? rows : columns, averaged = by_row ? columns : rows;
  const auto at = [=](int64_t i, int64_t j) -> float& { return by_row ? x[i * columns + j] : x[j * columns + i]; };
  double before = 0, after = 0;
  for (int64_t i = 0; i < kept; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < averaged; ++j) sum += static_cast<double>(at(i, j)) * static_cast<double>(at(i, j));
    mean_square[i] = static_cast<float>(sum / static_cast<double>(averaged));
    second[i] = beta2 * second[i] + (1 - beta2) * mean_square[i];
    const double s2 = 1 / std::max(static_cast<double>(second[i]), 1e-10);
    before += sum;
    after += sum * s2;
  }
  const double keep = std::sqrt(before) / std::max(std::sqrt(after), 1e-10);
  for (int64_t i = 0; i < kept; ++i) {
    const double factor = keep / std::sqrt(std::max(static_cast<double>(second[i]), 1e-10));
    for (int64_t j = 0; j < averaged; ++j) at(i, j) = static_cast<float>(factor * static_cast<double>(at(i, j)));
  }
}

void muon_update(int64_t rows, int64_t columns, const MuonCoefficients& c, const float* x, float* parameter,
                 int64_t leading) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      float& p = parameter[i * leading + j];
      const float step = x[i * columns + j];
      const float decay = !c.cautious || step * p >= 0 ? c.rate * c.weight_decay : 0;
      p = p * (1 - decay) - c.rate * step;
    }
}

}  // namespace heddle::ref
