// What heads say, beside the same in double precision, in arrays that are exactly large enough.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "heads.hpp"

using namespace fastloop::heads;

namespace {

std::mt19937_64 random_bits(1);

[[noreturn]] void fail(const char* what, double expected, double got) {
  std::printf("FAILED %s: expected %.9g, got %.9g\n", what, expected, got);
  std::exit(1);
}

std::vector<float> drawn(std::size_t count, double scale) {
  std::normal_distribution<double> normal(0.0, scale);
  std::vector<float> numbers(count);
  for (float& number : numbers) number = static_cast<float>(normal(random_bits));
  return numbers;
}

double expanded_double(double y) {
  const double root = (std::sqrt(1 + 0.004 * (std::abs(y) + 1.001)) - 1) / 0.002;
  return std::copysign(root * root - 1, y);
}

void check_exponentials() {
  for (float x = 0.0f; x > -86.9f; x -= 0.0007f) {
    const double wanted = std::exp(static_cast<double>(x)), got = exp_below_0(x);
    if (!(std::abs(got - wanted) < 1.2e-7 * wanted)) fail("exponential", wanted, got);
  }
  if (exp_below_0(0.0f) != 1.0f) fail("exponential of 0", 1, exp_below_0(0.0f));
  for (float x : {-88.0f, -1e9f, -INFINITY})
    if (!(exp_below_0(x) < 2e-38f)) fail("exponential far below 0", 0, exp_below_0(x));
  if (!std::isnan(exp_below_0(NAN))) fail("exponential of NaN", NAN, exp_below_0(NAN));
}

void check_decoded(std::size_t most, std::size_t rows, double scale) {
  const std::size_t outputs = 2 * most + 1;
  auto said = drawn(outputs * rows, scale);
  std::vector<float> work(3 * rows), found(rows);
  said[rows - 1] = NAN;
  decode(said.data(), outputs, rows, work.data(), found.data());
  if (!std::isnan(found[rows - 1])) fail("number of NaN", NAN, found[rows - 1]);
  for (std::size_t b = 0; b + 1 < rows; ++b) {
    double greatest = said[b], total = 0, number = 0;
    for (std::size_t k = 0; k < outputs; ++k)
      greatest = std::max<double>(greatest, said[k * rows + b]);
    for (std::size_t k = 0; k < outputs; ++k) {
      const double share = std::exp(said[k * rows + b] - greatest);
      total += share;
      number += share * (static_cast<double>(k) - static_cast<double>(most));
    }
    const double wanted = expanded_double(most == 0 ? said[b] : number / total);
    if (!(std::abs(found[b] - wanted) < 1e-4 * std::abs(wanted) + 1e-4 * (most + 1)))
      fail("number", wanted, found[b]);
  }
}

void check_centred(std::size_t features, std::size_t rows) {
  auto latent = drawn(features * rows, 3.0), before = drawn(features * rows, 3.0);
  const auto change = latent;
  std::vector<float> work(2 * rows);
  centre(latent.data(), before.data(), features, rows, 1e-5f, work.data());
  for (std::size_t b = 0; b < rows; ++b) {
    double mean = 0, variance = 0;
    for (std::size_t k = b; k < features * rows; k += rows) mean += change[k] + before[k];
    mean /= features;
    for (std::size_t k = b; k < features * rows; k += rows)
      variance += std::pow(change[k] + before[k] - mean, 2) / features;
    for (std::size_t k = b; k < features * rows; k += rows) {
      const double wanted = (change[k] + before[k] - mean) / std::sqrt(variance + 1e-5);
      if (!(std::abs(latent[k] - wanted) < 1e-4)) fail("a latent state", wanted, latent[k]);
    }
  }
}

}  // namespace

int main() {
  check_exponentials();
  for (std::size_t rows : {1, 2, 7, 8, 9, 64, 100}) {
    for (std::size_t most : {0, 1, 20, 300})
      for (double scale : {0.1, 3.0, 100.0, 1e6}) check_decoded(most, rows, scale);
    for (std::size_t features : {1, 5, 64, 300}) check_centred(features, rows);
  }
  std::puts("ALL GOOD");
  return 0;
}
