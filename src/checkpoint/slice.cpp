#include "checkpoint/slice.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "checkpoint/stored_dtype.h"

namespace trine {
namespace {

// A parameter as [outer, cut dimension, inner]; a rank-0 parameter is [1, 1, 1].
struct Folded {
  int64_t outer = 1, cut = 1, inner = 1;
};

Folded fold(const std::vector<int64_t>& shape, int64_t dim) {
  Folded folded;
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    (at < dim ? folded.outer : at == dim ? folded.cut : folded.inner) *= shape[i];
  }
  return folded;
}

}  // namespace

Slice whole_slice(std::string parameter, std::string kind, const std::vector<int64_t>& shape) {
  return flat_slice(std::move(parameter), std::move(kind), shape, 0, element_count(shape));
}

Slice flat_slice(std::string parameter, std::string kind, const std::vector<int64_t>& shape, int64_t begin, int64_t end) {
  return {std::move(parameter), std::move(kind), 0, 0, shape.empty() ? 1 : shape[0], begin, end};
}

std::string slice_fault(const Slice& slice, const std::vector<int64_t>& shape) {
  if (slice.dim < 0 || slice.dim >= std::max<int64_t>(1, static_cast<int64_t>(shape.size()))) {
    return fmt::format("dimension {} of a tensor with {}", slice.dim, shape.size());
  }
  const Folded folded = fold(shape, slice.dim);
  if (slice.part_begin < 0 || slice.part_begin > slice.part_end || slice.part_end > folded.cut) {
    return fmt::format("indices {} to {} of a dimension of {}", slice.part_begin, slice.part_end, folded.cut);
  }
  const int64_t part = folded.outer * (slice.part_end - slice.part_begin) * folded.inner;
  if (slice.begin < 0 || slice.begin > slice.end || slice.end > part) {
    return fmt::format("elements {} to {} of a part of {}", slice.begin, slice.end, part);
  }
  return "";
}

std::vector<Run> runs_of(const Slice& slice, const std::vector<int64_t>& shape) {
  std::vector<Run> runs;
  const Folded folded = fold(shape, slice.dim);
  const int64_t row = (slice.part_end - slice.part_begin) * folded.inner;  // contiguous elements of the part per outer index
  if (row == folded.cut * folded.inner) {
    if (slice.count() > 0) runs.push_back({slice.begin, 0, slice.count()});
    return runs;
  }
  for (int64_t at = slice.begin; at < slice.end;) {
    const int64_t outer = at / row, within = at % row;
    const int64_t count = std::min(row - within, slice.end - at);
    runs.push_back({(outer * folded.cut + slice.part_begin) * folded.inner + within, at - slice.begin, count});
    at += count;
  }
  return runs;
}

std::string tiling_fault(std::vector<Slice> slices, const std::vector<int64_t>& shape) {
  if (slices.empty()) return "no values";
  for (const Slice& slice : slices) {
    if (std::string fault = slice_fault(slice, shape); !fault.empty()) return fault;
    if (slice.dim != slices.front().dim) return fmt::format("slices along dimension {} and along {}", slices.front().dim, slice.dim);
  }
  std::erase_if(slices, [](const Slice& slice) { return slice.count() == 0; });
  std::sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
    return std::tie(a.part_begin, a.part_end, a.begin) < std::tie(b.part_begin, b.part_end, b.begin);
  });
  if (element_count(shape) == 0) return "";
  const Folded folded = fold(shape, slices.empty() ? 0 : slices.front().dim);
  int64_t covered = 0;  // indices of the cut dimension that earlier parts hold
  for (size_t i = 0; i < slices.size();) {
    const int64_t part_begin = slices[i].part_begin, part_end = slices[i].part_end;
    if (part_begin != covered) return fmt::format("indices {} to {} are {}", std::min(covered, part_begin), std::max(covered, part_begin),
                                                  part_begin > covered ? "missing" : "stored twice");
    int64_t end = 0;
    for (; i < slices.size() && slices[i].part_begin == part_begin && slices[i].part_end == part_end; ++i) {
      if (slices[i].begin != end) {
        return fmt::format("elements {} to {} are {}", std::min(end, slices[i].begin), std::max(end, slices[i].begin),
                           slices[i].begin > end ? "missing" : "stored twice");
      }
      end = slices[i].end;
    }
    const int64_t part = folded.outer * (part_end - part_begin) * folded.inner;
    if (end != part) return fmt::format("elements {} to {} are missing", end, part);
    covered = part_end;
  }
  if (covered != folded.cut) return fmt::format("indices {} to {} are missing", covered, folded.cut);
  return "";
}

}  // namespace trine
