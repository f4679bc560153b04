// What networks put out, in single precision: numbers said by categories, and latent states.
//
// Arrays are feature-first, [features, rows]. Each row is computed by itself, in the order of its
// features, so that its bits are the same whatever stands beside it; rows side by side fill the
// vectors of the processor, which round no product and sum at once (setup.py).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

// Which form is chosen when the module is loaded. There is none for the widest vectors: groups of
// eight rows, which are usual, would not fill them.
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define FASTLOOP_WIDER __attribute__((target_clones("default", "avx2")))
#else
#define FASTLOOP_WIDER
#endif

namespace fastloop::heads {

constexpr float kSlope = 0.001f;  // of the scale, far from 0

// e^x of x up to 0, to two units in the last place; below -87 it is e^-87, and NaN of NaN.
// Cephes' polynomial (Moshier 1989) on what is left of whole powers of 2.
inline float exp_below_0(float x) {
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: what is added to it is rounded to a whole
  x = std::max(x, -87.0f);
  const float shifted = x * 1.44269504f + kShift, n = shifted - kShift;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  std::uint32_t power;  // the low bits of `shifted` are n's
  std::memcpy(&power, &shifted, sizeof power);
  power = (power << 23) + 0x3f800000u;
  float scale;
  std::memcpy(&scale, &power, sizeof scale);
  return p * scale;
}

// Of the scale's numbers those that they stand for (Schrittwieser et al. 2020, appendix F), by the
// root of a square equation in the form that takes no difference of near numbers.
inline float expanded(float y) {
  const float above = std::fabs(y) + (1.0f + kSlope);
  const float root = 2.0f * above / (1.0f + std::sqrt(1.0f + 4.0f * kSlope * above));
  return std::copysign(root * root - 1.0f, y) * (y != 0.0f);
}

// The number that each row of [outputs, rows] says, into `found`: expected of categories, one for
// each whole number around 0; or the only one. `work` has room for three numbers of each row.
FASTLOOP_WIDER inline void decode(const float* __restrict said, std::size_t outputs, std::size_t rows,
                                      float* work, float* found) {
  float *__restrict most = work, *__restrict total = work + rows, *__restrict number = work + 2 * rows;
  std::copy_n(said, rows, most);
  std::fill_n(total, 2 * rows, 0.0f);
  for (std::size_t k = 1; k < outputs; ++k)
    for (std::size_t b = 0; b < rows; ++b) most[b] = std::max(most[b], said[k * rows + b]);
  for (std::size_t k = 0; k < outputs && outputs > 1; ++k) {
    const float atom = static_cast<float>(k) - static_cast<float>(outputs / 2);
    for (std::size_t b = 0; b < rows; ++b) {
      const float share = exp_below_0(said[k * rows + b] - most[b]);
      total[b] += share;
      number[b] += atom * share;
    }
  }
  for (std::size_t b = 0; b < rows; ++b)
    found[b] = expanded(outputs > 1 ? number[b] / total[b] : said[b]);
}

// Brings each row of [features, rows] to mean 0 and deviation 1, after adding what it was before
// the step where that is given. `work` has room for two numbers of each row.
FASTLOOP_WIDER inline void centre(float* __restrict latent, const float* __restrict before, std::size_t features,
                                      std::size_t rows, float epsilon, float* work) {
  float *__restrict mean = work, *__restrict spread = work + rows;
  const float share = 1.0f / static_cast<float>(features);
  std::fill_n(work, 2 * rows, 0.0f);
  for (std::size_t k = 0; k < features; ++k)
    for (std::size_t b = 0; b < rows; ++b) {
      if (before != nullptr) latent[k * rows + b] += before[k * rows + b];
      mean[b] += latent[k * rows + b];
    }
  for (std::size_t b = 0; b < rows; ++b) mean[b] *= share;
  for (std::size_t k = 0; k < features; ++k)
    for (std::size_t b = 0; b < rows; ++b) {
      float& number = latent[k * rows + b];
      number -= mean[b];
      spread[b] += number * number;
    }
  for (std::size_t b = 0; b < rows; ++b)
    spread[b] = 1.0f / std::sqrt(spread[b] * share + epsilon);
  for (std::size_t k = 0; k < features; ++k)
    for (std::size_t b = 0; b < rows; ++b) latent[k * rows + b] *= spread[b];
}

}  // namespace fastloop::heads
