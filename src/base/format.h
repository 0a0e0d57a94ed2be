// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trine {

std::string with_commas(int64_t value);           // 1,234,567
std::string in_bytes(uint64_t bytes);             // 1.50 GiB, 12.0 MiB, 812 B
std::string in_duration(double seconds);          // 850 ms, 12.3 s, 4 min 05 s, 2 h 03 min
std::string in_parameters(int64_t count);         // 596M, 4.02B

std::vector<std::string> split_lines(std::string_view text);  // without the line ends; no empty last line

}  // namespace trine
