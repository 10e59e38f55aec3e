#include "support/numbers.h"

#include <gtest/gtest.h>

#include <limits>

namespace heddle {

TEST(Numbers, IntegersAreReadWholeOrNotAtAll) {
  EXPECT_EQ(parse_integer("0"), 0);
  EXPECT_EQ(parse_integer("-17"), -17);
  EXPECT_EQ(parse_integer("007"), 7);
  EXPECT_EQ(parse_integer("9223372036854775807"), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(parse_integer("-9223372036854775808"), std::numeric_limits<int64_t>::min());
  for (const char* text : {"", " ", "3x", " 3", "3 ", "+3", "1e3", "0x10", "1_000", "1,000", "3.0", "nan", "-", "--3",
                           "9223372036854775808", "-9223372036854775809", "99999999999999999999"})
    EXPECT_FALSE(parse_integer(text).has_value()) << "'" << text << "'";
}

TEST(Numbers, RealsAreReadWholeAndFinite) {
  EXPECT_EQ(parse_real("0.1"), 0.1);
  EXPECT_EQ(parse_real("-2.5e-3"), -0.0025);
  EXPECT_EQ(parse_real("3"), 3.0);
  EXPECT_EQ(parse_real("1.7976931348623157e308"), std::numeric_limits<double>::max());
  EXPECT_EQ(parse_real("5e-324"), std::numeric_limits<double>::denorm_min());
  for (const char* text : {"",   " ",    "nan", "NAN", "nan(1)", "inf", "-inf", "infinity", "1e400", "-1e400",
                           "3x", "0x10", "1e",  "e3",  "1.2.3",  " 1",  "1 ",   "+1",       "1,5",   "."})
    EXPECT_FALSE(parse_real(text).has_value()) << "'" << text << "'";
}

TEST(Numbers, SharesAreThoseOfTheirDecimals) {
  // Each of these products is beside the number that the decimals give.
  EXPECT_NE(0.55 * 100, 55);
  EXPECT_EQ(share_of(0.55, 100), 55);
  EXPECT_EQ(share_of(0.07, 100), 7);
  EXPECT_EQ(share_of(0.28, 25), 7);
  EXPECT_EQ(share_of(0.14, 50), 7);
  EXPECT_NE(0.575 * 100, 57.5);
  EXPECT_EQ(share_of(0.575, 100), 57.5);
  EXPECT_EQ(share_of(0, 100), 0);
  EXPECT_EQ(share_of(1, 1'000'000'000'000), 1e12);
  // What lies beside in the decimals stays there.
  EXPECT_GT(share_of(0.5500000000001, 100), 55);
  EXPECT_LT(share_of(0.5499999999999, 100), 55);
  EXPECT_EQ(share_of(0.75, 10), 7.5);
  EXPECT_DOUBLE_EQ(share_of(0.3, 7), 2.1);
}

TEST(Numbers, PeopleReadTwoOrThreeDigits) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1536), "1.50 KiB");
  EXPECT_EQ(human_bytes(1024.0 * 1024 - 1), "1.00 MiB");
  EXPECT_EQ(human_bytes(1.5 * 1024 * 1024), "1.50 MiB");
  EXPECT_EQ(human_bytes(5e15), "4547.47 TiB");
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(human_count(12'300'000), "12.3M");
  EXPECT_EQ(human_count(999'990), "1.0M");
  EXPECT_EQ(human_count(-2500), "-2.5k");
}

}  // namespace heddle
