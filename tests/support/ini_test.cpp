#include "support/ini.h"

#include <gtest/gtest.h>

#include "support/error.h"

namespace heddle {
namespace {

/// Entries as "key=value@line" words.
std::vector<std::string> read(std::string_view text) {
  std::vector<std::string> words;
  for (const IniEntry& e : parse_ini(text, "f")) words.push_back(fmt::format("{}={}@{}", e.key, e.value, e.line));
  return words;
}

using Words = std::vector<std::string>;

TEST(Ini, SectionsNamesValuesAndLines) {
  EXPECT_EQ(read(""), Words{});
  EXPECT_EQ(read("a = 1"), Words{"a=1@1"});
  EXPECT_EQ(read("[s]\na=1\n\n  b \t=  two words \n[ t ]\na="), (Words{"s.a=1@2", "s.b=two words@4", "t.a=@6"}));
  EXPECT_EQ(read("a = b = c"), Words{"a=b = c@1"});
}

TEST(Ini, CommentsStartALineOrFollowWhiteSpace) {
  EXPECT_EQ(read("# x = 1\n  ; y = 2\n[s] # a\na = 1 # b\nc = 2\t; d"), (Words{"s.a=1@4", "s.c=2@5"}));
  EXPECT_EQ(read("a = x#1;2"), Words{"a=x#1;2@1"});
}

TEST(Ini, ByteOrderMarkAndWindowsLineEnds) {
  EXPECT_EQ(read("\xEF\xBB\xBF[s]\r\na = 1\r\n\r\nb = 2\r\n"), (Words{"s.a=1@2", "s.b=2@4"}));
}

TEST(Ini, OtherLinesAreRefusedWithTheirNumber) {
  for (const char* line : {"[", "[]", "[ ]", "[s", "s]", "word", "= 1", "[s] a = 1"}) {
    try {
      read(std::string("\n# c\n") + line + "\n");
      ADD_FAILURE() << "accepted: " << line;
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find("f:3: "), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(line), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace heddle
