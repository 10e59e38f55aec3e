#include <gtest/gtest.h>
#include <zlib.h>

#include "data/documents.h"
#include "data/importers/classics.h"
#include "data/importers/gutenberg.h"
#include "data/importers/r_lazy_load.h"
#include "support/error.h"
#include "temporary_folder.h"

namespace heddle {
namespace {

std::string big_endian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

std::string r_header() {
  return "X\n" + big_endian(3) + big_endian(0x040202) + big_endian(0x030500) + big_endian(5) + "UTF-8";
}

std::string r_strings(const std::vector<std::string>& strings) {
  std::string object = r_header() + big_endian(0x10) + big_endian(static_cast<uint32_t>(strings.size()));
  for (const std::string& text : strings)
    object += big_endian(0x00040009) + big_endian(static_cast<uint32_t>(text.size())) + text;
  return object;
}

std::string packed(const std::string& object) {
  uLongf size = compressBound(object.size());
  std::string stream(size, '\0');
  compress(reinterpret_cast<Bytef*>(stream.data()), &size, reinterpret_cast<const Bytef*>(object.data()),
           object.size());
  stream.resize(size);
  return big_endian(static_cast<uint32_t>(object.size())) + stream;
}

TEST(RLazyLoad, ReadsStringVectorsInOrder) {
  const std::string number = r_header() + big_endian(0x0D) + big_endian(1) + big_endian(7);  // an integer vector
  const std::string missing = r_header() + big_endian(0x10) + big_endian(1) + big_endian(9) + big_endian(0xFFFFFFFF);
  const auto objects = parse_r_lazy_load(
      packed(r_strings({"EMMA", "", "by Jane"})) + packed(number) + packed(r_strings({"two"})) + packed(missing),
      "test");
  ASSERT_EQ(objects.size(), 3u);
  EXPECT_EQ(objects[0], (std::vector<std::string>{"EMMA", "", "by Jane"}));
  EXPECT_EQ(objects[1], (std::vector<std::string>{"two"}));
  EXPECT_EQ(objects[2], (std::vector<std::string>{""}));
}

TEST(RLazyLoad, DamageIsRefused) {
  const std::string good = packed(r_strings({"some text", "more"}));
  const auto refuse = [](const std::string& bytes, const std::string& part) {
    expect_error<Error>([&] { parse_r_lazy_load(bytes, "file.rdb"); }, part);
  };
  refuse(good.substr(0, good.size() - 4), "file.rdb at byte 0: zlib status");
  refuse(good + "abc", fmt::format("at byte {}: the file is cut off", good.size()));
  refuse(big_endian(10) + "Zxxxx", "bzip2 or xz");
  refuse(big_endian(0xFFFFFFF0) + "xxxxxx", "an object of");
  refuse(packed("A\nnot binary"), "not in R's binary serialization");
  std::string short_object = r_strings({"some text"});
  short_object.resize(short_object.size() - 3);
  refuse(packed(short_object), "ends early");
  expect_error<Error>([] { read_r_lazy_load("/nonexistent.rdb"); }, "cannot read");
}

TEST(Gutenberg, ModernMarksAreStripped) {
  const std::string text =
      "\xEF\xBB\xBFThe Project Gutenberg EBook\r\n\r\n*** START OF THIS PROJECT GUTENBERG EBOOK X ***\r\n\r\nProduced "
      "by somebody\r\n\r\n"
      "TITLE\r\n\r\nOne from Project Gutenberg's archives\r\nand more of it.\r\n\r\nBody text.\r\n\r\nEnd of Project "
      "Gutenberg's X\r\n\r\n"
      "*** END OF THIS PROJECT GUTENBERG EBOOK X ***\r\n\r\nlicence\r\n*** START: FULL LICENSE ***\r\nmore\r\n";
  EXPECT_EQ(strip_gutenberg(text), "TITLE\n\nBody text.\n\n");
}

TEST(Gutenberg, SeveralOldVolumesKeepEveryBody) {
  const std::string text =
      "legal 1\n*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*\n\nbody one\n\nEnd of The Project Gutenberg Etext of "
      "V. 1\n"
      "legal 2\n*END THE SMALL PRINT! FOR*Ver*\n\n[Redactor's note: This is the Project Gutenberg\nedition]\n\nbody "
      "two\n"
      "End of The Project Gutenberg Etext of V. 2\nlegal 3\n*END*THE SMALL PRINT!*\nbody three\n";
  EXPECT_EQ(strip_gutenberg(text), "body one\n\nbody two\n\nbody three\n\n");
}

TEST(Gutenberg, TextWithoutMarksIsKept) {
  EXPECT_EQ(strip_gutenberg("a\nb\n\n\n\nc"), "a\nb\n\nc\n\n");
}

TEST(Gutenberg, Latin1BecomesUtf8) {
  EXPECT_EQ(latin1_to_utf8("Rog\xEAt \xA3"
                           "1"),
            "Rog\xC3\xAAt \xC2\xA3"
            "1");
}

TEST(Gutenberg, ProseIsJoinedAndVerseIsKept) {
  const std::string text =
      "It was a long first line of prose that was wrapped\n"
      "at fifty columns, as such texts are, and it went\n"
      "on to a third.\n\n\n\n"
      "And all with pearl and ruby glowing by the\n"
      " Was the fair palace door, and it was wide,\n"
      "Through which came flowing, flowing, flowing,\n\n"
      "Once upon a midnight dreary, while I pondered,\n"
      "Weak and weary, over many a quaint and curious\n"
      "Volume of forgotten lore, while I nodded, nearly\n\n"
      "CHAPTER I\n"
      "A short title\n\n"
      "Another paragraph of two lines that is as long as\n"
      "the others.\n";
  EXPECT_EQ(join_wrapped_lines(text, false),
            "It was a long first line of prose that was wrapped at fifty columns, as such texts are, and it went on to "
            "a third.\n\n"
            "And all with pearl and ruby glowing by the\n Was the fair palace door, and it was wide,\nThrough which "
            "came flowing, "
            "flowing, flowing,\n\n"
            "Once upon a midnight dreary, while I pondered,\nWeak and weary, over many a quaint and curious\nVolume of "
            "forgotten "
            "lore, while I nodded, nearly\n\n"
            "CHAPTER I\nA short title\n\n"
            "Another paragraph of two lines that is as long as the others.\n");
}

TEST(Gutenberg, HyphensAtLineEndsAreUndone) {
  const std::string text =
      "persons attempting to find a motive in this narra-\n"
      "tive will see that who-whooing owl, so he said --\n"
      "and the second who-\n"
      "whooing is left as it stands in the text, by rule.\n";
  EXPECT_EQ(join_wrapped_lines("persons attempting to find a motive in this narra-\ntive will be shot.\n", true),
            "persons attempting to find a motive in this narrative will be shot.\n");
  EXPECT_EQ(join_wrapped_lines("he said to them that it was all over now, he did --\nand then left by the\n", true),
            "he said to them that it was all over now, he did -- and then left by the\n");
  EXPECT_EQ(join_wrapped_lines("an owl who-whooing.\n\nan owl that was heard to be who-\nwhooing all night.\n", true),
            "an owl who-whooing.\n\nan owl that was heard to be who-whooing all night.\n");
  EXPECT_NE(join_wrapped_lines(text, false).find("narra-"), std::string::npos);
}

TEST(Classics, MissingPackagesAreNamed) {
  const TemporaryFolder folder;
  expect_error<Error>([&] { import_classics(folder.path(), folder.path("out")); },
                      "Debian package r-cran-janeaustenr 1.0.0-1");
  EXPECT_EQ(classic_books().size(), 11u);
}

TEST(Classics, HeldOutBooksStayOutOfTheTrainText) {
  const TemporaryFolder folder;
  std::string database;
  for (const char* name : {"emma", "mansfield", "northanger", "persuasion", "pride", "sense"})
    database += packed(r_strings({std::string("the words of ") + name}));
  for (const ClassicBook& book : classic_books())
    folder.write(std::string("root/") + book.file,
                 book.r_object >= 0 ? database : std::string("the text of ") + book.source);
  testing::internal::CaptureStderr();
  const ClassicReport report = import_classics(folder.path("root"), folder.path("out"));
  // Other texts than those of the manifest are announced, book by book.
  EXPECT_NE(testing::internal::GetCapturedStderr().find("Jane Austen, Emma: the text has hash"), std::string::npos);
  ASSERT_EQ(report.books.size(), 11u);
  EXPECT_FALSE(report.books[0].expected);

  const DocumentSet train = read_documents({folder.path("out/train.jsonl")}, {});
  EXPECT_EQ(train.documents.size(), 9u);
  EXPECT_EQ(train.documents[0].text, "the words of emma");
  EXPECT_EQ(train.documents[0].source, "Jane Austen, Emma, 1");
  for (const Document& document : train.documents) {
    EXPECT_EQ(document.text.find("persuasion"), std::string::npos);
    EXPECT_EQ(document.text.find("Holmes"), std::string::npos);
  }
  const DocumentSet validation = read_documents({folder.path("out/validation.jsonl")}, {});
  ASSERT_EQ(validation.documents.size(), 1u);
  EXPECT_EQ(validation.documents[0].text, "the words of persuasion");
  const DocumentSet other = read_documents({folder.path("out/other_author.jsonl")}, {});
  ASSERT_EQ(other.documents.size(), 1u);
  EXPECT_EQ(other.documents[0].text, "the text of Arthur Conan Doyle, Sherlock Holmes");
}

}  // namespace
}  // namespace heddle
