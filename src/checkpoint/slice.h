// Which elements of a parameter a stored or wanted piece holds, whatever layout cut it.
//
// A layout may cut a parameter along one dimension (tensor or expert parallel) and then deal out the result's elements as flat ranges
// (fully sharded). A slice names both cuts, so that a checkpoint written by any layout can be read by any other.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trine {

struct Slice {
  std::string parameter;
  std::string kind;                    // kMaster, kExpAvg, kExpAvgSq
  int64_t dim = 0;                     // the dimension cut
  int64_t part_begin = 0, part_end = 0;  // indices along it; the whole dimension if it is not cut
  int64_t begin = 0, end = 0;          // flat range inside that part, row-major

  int64_t count() const { return end - begin; }
};

inline constexpr const char* kMaster = "master";
inline constexpr const char* kExpAvg = "exp_avg";
inline constexpr const char* kExpAvgSq = "exp_avg_sq";

// A whole parameter, or elements [begin, end) of it.
Slice whole_slice(std::string parameter, std::string kind, const std::vector<int64_t>& shape);
Slice flat_slice(std::string parameter, std::string kind, const std::vector<int64_t>& shape, int64_t begin, int64_t end);

// Empty if the slice fits the shape, else what is wrong.
std::string slice_fault(const Slice& slice, const std::vector<int64_t>& shape);

// A stretch of elements that is contiguous in the parameter and in the slice.
struct Run {
  int64_t in_parameter = 0, in_slice = 0, count = 0;
};
std::vector<Run> runs_of(const Slice& slice, const std::vector<int64_t>& shape);  // ascending in both

// Empty if the slices (of one parameter and kind) hold every element exactly once, else what is wrong.
std::string tiling_fault(std::vector<Slice> slices, const std::vector<int64_t>& shape);

}  // namespace trine
