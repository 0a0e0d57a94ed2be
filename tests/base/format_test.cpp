#include "base/format.h"

#include <gtest/gtest.h>

namespace trine {
namespace {

TEST(Format, Commas) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(-1234567), "-1,234,567");
  EXPECT_EQ(with_commas(-123), "-123");
}

TEST(Format, BytesDurationsParameters) {
  EXPECT_EQ(in_bytes(812), "812 B");
  EXPECT_EQ(in_bytes(3ull << 29), "1.50 GiB");
  EXPECT_EQ(in_duration(0.85), "850 ms");
  EXPECT_EQ(in_duration(245), "4 min 05 s");
  EXPECT_EQ(in_duration(7380), "2 h 03 min");
  EXPECT_EQ(in_parameters(596049920), "596M");
}

}  // namespace
}  // namespace trine
