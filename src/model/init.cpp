#include "model/init.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "base/random.h"

namespace trine {
namespace {

constexpr int64_t kPerBlock = 4;  // values of one block of the generator

// Elements first..first+count of a normal stream, in a tensor that the thread keeps for the next call.
class NormalPiece {
 public:
  explicit NormalPiece(int64_t most) : values_(at::empty({most + 2 * kPerBlock}, at::kFloat)) {}

  at::Tensor draw(const CounterRandom& random, int64_t first, int64_t count) {
    const int64_t first_block = first / kPerBlock, end_block = (first + count + kPerBlock - 1) / kPerBlock;
    random.normals(static_cast<uint64_t>(first_block), end_block - first_block, values_.data_ptr<float>());
    return values_.narrow(0, first - first_block * kPerBlock, count);
  }

 private:
  at::Tensor values_;
};

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
    NormalPiece piece(std::min(kPiece, end - begin));
    for (int64_t at = begin; at < end; at += kPiece) {
      const int64_t count = std::min(kPiece, end - at);
      flat.narrow(0, at, count).copy_(piece.draw(random, first_index + at, count).mul_(init.std));
    }
  });
}

}  // namespace trine
