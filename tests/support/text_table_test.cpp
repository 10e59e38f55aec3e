#include "support/text_table.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace heddle {

using Align = TextTable::Align;

TEST(TextTable, ColumnsAreAsWideAsTheirWidestCell) {
  TextTable table({{"name", Align::kLeft}, {"loss"}, {"note", Align::kLeft}});
  table.add_row({"a", "12.50", "first"});
  table.add_row({"longer", "3", ""});
  EXPECT_EQ(table.render(),
            "  name     loss  note\n"
            "  a       12.50  first\n"
            "  longer      3\n");
}

TEST(TextTable, WithoutTitlesThereIsNoHeading) {
  TextTable table({{"", Align::kLeft}, {""}});
  table.add_row({"x", "1"});
  table.add_row({"yy", "20"});
  EXPECT_EQ(table.render(0), "x    1\nyy  20\n");
}

TEST(TextTable, AccentedLettersCountOnce) {
  TextTable table({{"", Align::kLeft}, {""}});
  table.add_row({"Brontë", "1"});
  table.add_row({"Austen", "2"});
  EXPECT_EQ(table.render(0), "Brontë  1\nAusten  2\n");
}

TEST(TextTable, RowsOfAnotherLengthAreRefused) {
  TextTable table({{"a"}, {"b"}});
  EXPECT_THROW(table.add_row({"1"}), std::logic_error);
  EXPECT_THROW(table.add_row({"1", "2", "3"}), std::logic_error);
}

}  // namespace heddle
