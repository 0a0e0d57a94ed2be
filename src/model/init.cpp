#include "model/init.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "base/random.h"

namespace trine {
namespace {

// Draws elements first..first+count of a normal stream into `out`.
void draw_normal(const CounterRandom& random, float std, int64_t first, int64_t count, float* out) {
  const auto per_block = static_cast<int64_t>(random.normal4(0).size());
  for (int64_t i = 0; i < count;) {
    const int64_t index = first + i, lane = index % per_block;
    const auto values = random.normal4(static_cast<uint64_t>(index / per_block));
    for (int64_t k = lane; k < per_block && i < count; ++k, ++i) out[i] = values[static_cast<size_t>(k)] * std;
  }
}

}  // namespace

void initialize(at::Tensor flat, int64_t first_index, const InitSpec& init, std::string_view name, uint64_t seed) {
  at::NoGradGuard no_grad;
  if (init.kind == InitSpec::Kind::kOnes) {
    flat.fill_(1);
    return;
  }
  const CounterRandom random(seed, name);
  constexpr int64_t kPiece = 1 << 14;
  at::parallel_for(0, flat.numel(), kPiece, [&](int64_t begin, int64_t end) {
    at::NoGradGuard no_grad_in_thread;
    at::Tensor piece = at::empty({std::min(kPiece, end - begin)}, at::kFloat);
    for (int64_t at = begin; at < end; at += kPiece) {
      const int64_t count = std::min(kPiece, end - at);
      draw_normal(random, static_cast<float>(init.std), first_index + at, count, piece.data_ptr<float>());
      flat.narrow(0, at, count).copy_(piece.narrow(0, 0, count));
    }
  });
}

}  // namespace trine
