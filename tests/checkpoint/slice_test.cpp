// Slices against a plain list of element numbers, over all ways to cut small tensors.
#include "checkpoint/slice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace trine {
namespace {

using testing::HasSubstr;

// The parameter's flat element numbers that a slice holds, found element by element.
std::vector<int64_t> elements_by_hand(const Slice& slice, const std::vector<int64_t>& shape) {
  std::vector<int64_t> elements;
  int64_t inner = 1, total = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    total *= shape[i];
    if (static_cast<int64_t>(i) > slice.dim) inner *= shape[i];
  }
  for (int64_t element = 0; element < total; ++element) {
    const int64_t index = element / inner % shape[static_cast<size_t>(slice.dim)];
    if (index >= slice.part_begin && index < slice.part_end) elements.push_back(element);
  }
  return {elements.begin() + slice.begin, elements.begin() + slice.end};
}

TEST(Slice, RunsNameTheElementsThatTheCutsKeep) {
  const std::vector<int64_t> shape = {3, 4, 5};
  for (int64_t dim = 0; dim < 3; ++dim) {
    const int64_t size = shape[static_cast<size_t>(dim)];
    for (int64_t part_begin = 0; part_begin < size; ++part_begin) {
      for (int64_t part_end = part_begin + 1; part_end <= size; ++part_end) {
        const int64_t part = 60 / size * (part_end - part_begin);
        for (int64_t begin = 0; begin <= part; begin += 3) {
          for (int64_t end = begin; end <= part; end += 2) {
            const Slice slice = {"w", kMaster, dim, part_begin, part_end, begin, end};
            ASSERT_EQ(slice_fault(slice, shape), "");
            std::vector<int64_t> elements;
            for (const trine::Run& run : runs_of(slice, shape)) {
              EXPECT_EQ(run.in_slice, static_cast<int64_t>(elements.size()));
              for (int64_t i = 0; i < run.count; ++i) elements.push_back(run.in_parameter + i);
            }
            ASSERT_EQ(elements, elements_by_hand(slice, shape));
          }
        }
      }
    }
  }
}

TEST(Slice, FaultsAreNamed) {
  const std::vector<int64_t> shape = {4, 6};
  EXPECT_EQ(slice_fault(whole_slice("w", kMaster, shape), shape), "");
  EXPECT_EQ(slice_fault(whole_slice("w", kMaster, {}), {}), "");
  EXPECT_THAT(slice_fault({"w", kMaster, 2, 0, 1, 0, 1}, shape), HasSubstr("dimension 2"));
  EXPECT_THAT(slice_fault({"w", kMaster, 1, 0, 7, 0, 1}, shape), HasSubstr("indices 0 to 7 of a dimension of 6"));
  EXPECT_THAT(slice_fault({"w", kMaster, 1, 2, 4, 0, 9}, shape), HasSubstr("elements 0 to 9 of a part of 8"));
  EXPECT_THAT(slice_fault({"w", kMaster, 0, 0, 4, 5, 4}, shape), HasSubstr("elements 5 to 4"));
}

TEST(Slice, TilingFindsHolesAndOverlaps) {
  const std::vector<int64_t> shape = {4, 6};
  const auto part = [](int64_t b, int64_t e, int64_t first, int64_t last) { return Slice{"w", kMaster, 1, b, e, first, last}; };
  EXPECT_EQ(tiling_fault({part(0, 2, 0, 8), part(2, 6, 0, 5), part(2, 6, 5, 16)}, shape), "");
  EXPECT_EQ(tiling_fault({part(2, 6, 5, 16), part(0, 2, 0, 8), part(2, 6, 5, 5), part(2, 6, 0, 5)}, shape), "");  // any order, empty ones
  EXPECT_THAT(tiling_fault({part(0, 2, 0, 8), part(2, 6, 0, 5), part(2, 6, 6, 16)}, shape), HasSubstr("elements 5 to 6 are missing"));
  EXPECT_THAT(tiling_fault({part(0, 2, 0, 8), part(2, 6, 0, 5), part(2, 6, 4, 16)}, shape), HasSubstr("elements 4 to 5 are stored twice"));
  EXPECT_THAT(tiling_fault({part(0, 2, 0, 8)}, shape), HasSubstr("indices 2 to 6 are missing"));
  EXPECT_THAT(tiling_fault({part(0, 3, 0, 12), part(2, 6, 0, 16)}, shape), HasSubstr("stored twice"));
  EXPECT_THAT(tiling_fault({part(0, 2, 0, 7), part(2, 6, 0, 16)}, shape), HasSubstr("elements 7 to 8 are missing"));
  EXPECT_THAT(tiling_fault({}, shape), HasSubstr("no values"));
  EXPECT_THAT(tiling_fault({part(0, 6, 0, 24), whole_slice("w", kMaster, shape)}, shape), HasSubstr("along dimension"));
}

}  // namespace
}  // namespace trine
