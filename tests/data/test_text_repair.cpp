// Broken UTF-8 in the middle and at the end of a text.
#include <gtest/gtest.h>

#include "data/text_repair.h"

namespace heddle {
namespace {

std::string repaired(std::string text) {
  replace_broken_utf8(text);
  return text;
}

std::string finished(std::string text) {
  drop_unfinished_character(text);
  return text;
}

TEST(TextRepair, BrokenSequencesBecomeTheReplacementCharacter) {
  EXPECT_EQ(repaired("caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\xA7\xB5"), "caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\xA7\xB5");
  EXPECT_EQ(repaired("a\xFF"
                     "b"),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(repaired("\x80\xBF"
                     "b\xC3"),
            "\xEF\xBF\xBD"
            "b\xEF\xBF\xBD");
  EXPECT_EQ(repaired("\xE2\x82"
                     "a"),
            "\xEF\xBF\xBD"
            "a");
  std::string twice = "\xFF\xFF";
  EXPECT_EQ(replace_broken_utf8(twice), 2);
  EXPECT_EQ(replace_broken_utf8(twice), 0);
}

TEST(TextRepair, AnUnfinishedLastCharacterGoes) {
  EXPECT_EQ(finished(""), "");
  EXPECT_EQ(finished("abc"), "abc");
  EXPECT_EQ(finished("a\xC3\xA9"), "a\xC3\xA9");
  EXPECT_EQ(finished("a\xC3"), "a");
  EXPECT_EQ(finished("a\xE2\x82\xAC"), "a\xE2\x82\xAC");
  EXPECT_EQ(finished("a\xE2\x82"), "a");
  EXPECT_EQ(finished("a\xF0\x9F\xA7\xB5"), "a\xF0\x9F\xA7\xB5");
  EXPECT_EQ(finished("a\xF0\x9F\xA7"), "a");
  EXPECT_EQ(finished("\xF0"), "");
  EXPECT_EQ(finished("a\x80\x80"), "a\x80\x80") << "broken, but nothing that more bytes would finish";
}

}  // namespace
}  // namespace heddle
