// Lists, counters of references, and scatter lists: what headers alone do.

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <linux/bitops.h>
#include <linux/err.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

namespace {

struct Element {
  int number{};
  list_head link{};
};

[[nodiscard]] std::vector<int> numbers_of(list_head& head) {
  std::vector<int> numbers;
  Element* element = nullptr;
  list_for_each_entry(element, &head, link) { numbers.push_back(element->number); }
  return numbers;
}

TEST(KenvList, KeepsTheOrderInWhichElementsWereAdded) {
  LIST_HEAD(head);
  std::array<Element, 3> elements{
      {{.number = 1}, {.number = 2}, {.number = 3}}
  };
  EXPECT_TRUE(list_empty(&head));
  list_add_tail(&elements[0].link, &head);
  list_add_tail(&elements[1].link, &head);
  list_add(&elements[2].link, &head);
  EXPECT_EQ(numbers_of(head), (std::vector{3, 1, 2}));
  list_move(&elements[1].link, &head);
  EXPECT_EQ(numbers_of(head), (std::vector{2, 3, 1}));
  list_del(&elements[2].link);
  EXPECT_EQ(numbers_of(head), (std::vector{2, 1}));
  EXPECT_EQ(elements[2].link.next, LIST_POISON1);
}

TEST(KenvList, ElementsMayGoDuringASafeWalk) {
  LIST_HEAD(head);
  std::array<Element, 4> elements{
      {{.number = 1}, {.number = 2}, {.number = 3}, {.number = 4}}
  };
  for (Element& element : elements) {
    list_add_tail(&element.link, &head);
  }
  Element* at = nullptr;
  Element* then = nullptr;
  list_for_each_entry_safe(at, then, &head, link) {
    if (at->number % 2 == 0) {
      list_del_init(&at->link);
    }
  }
  EXPECT_EQ(numbers_of(head), (std::vector{1, 3}));
  EXPECT_TRUE(list_empty(&elements[1].link));
}

TEST(KenvList, SplicesAllElementsAndNoneOfAnEmptyList) {
  LIST_HEAD(to);
  LIST_HEAD(from);
  std::array<Element, 3> elements{
      {{.number = 1}, {.number = 2}, {.number = 3}}
  };
  list_add_tail(&elements[0].link, &to);
  list_splice_tail_init(&from, &to);
  EXPECT_EQ(numbers_of(to), std::vector{1});
  list_add_tail(&elements[1].link, &from);
  list_add_tail(&elements[2].link, &from);
  list_splice_init(&from, &to);
  EXPECT_EQ(numbers_of(to), (std::vector{2, 3, 1}));
  EXPECT_TRUE(list_empty(&from));
}

int the_releases = 0;

TEST(KenvKref, CallsItsFunctionWithTheLastReference) {
  the_releases = 0;
  kref counted{};
  kref_init(&counted);
  kref_get(&counted);
  const auto release = [](kref* /*gone*/) { ++the_releases; };
  EXPECT_EQ(kref_put(&counted, release), 0);
  EXPECT_EQ(the_releases, 0);
  EXPECT_EQ(kref_put(&counted, release), 1);
  EXPECT_EQ(the_releases, 1);
  EXPECT_EQ(kref_get_unless_zero(&counted), 0);
}

TEST(KenvErr, PointersAreErrorsOrNot) {
  int object = 0;
  EXPECT_FALSE(IS_ERR(&object));
  EXPECT_TRUE(IS_ERR(ERR_PTR(-ENOMEM)));
  EXPECT_EQ(PTR_ERR(ERR_PTR(-ENOMEM)), -ENOMEM);
  EXPECT_TRUE(IS_ERR_OR_NULL(nullptr));
  EXPECT_FALSE(IS_ERR(nullptr));
}

TEST(KenvBits, SaysWhetherABitWasSet) {
  std::array<unsigned long, 2> words{};
  EXPECT_FALSE(test_and_set_bit(70, words.data()));
  EXPECT_TRUE(test_and_set_bit(70, words.data()));
  EXPECT_EQ(find_first_bit(words.data(), 128), 70U);
  EXPECT_TRUE(test_and_clear_bit(70, words.data()));
  EXPECT_EQ(find_first_bit(words.data(), 128), 128U);
}

TEST(KenvScatterList, WalksOverChainedParts) {
  std::array<char, 4'096> memory{};
  std::array<scatterlist, 3> first{};
  std::array<scatterlist, 2> second{};
  sg_init_table(first.data(), 3);
  sg_init_table(second.data(), 2);
  sg_set_buf(&first[0], &memory[0], 1);
  sg_set_buf(&first[1], &memory[10], 2);
  sg_set_buf(&second[0], &memory[20], 3);
  sg_set_buf(&second[1], &memory[30], 4);
  sg_chain(first.data(), 3, second.data());
  EXPECT_EQ(sg_nents(first.data()), 4);
  std::vector<unsigned> lengths;
  for (scatterlist* sg = first.data(); sg != nullptr; sg = sg_next(sg)) {
    lengths.push_back(sg->length);
  }
  EXPECT_EQ(lengths, (std::vector{1U, 2U, 3U, 4U}));
  EXPECT_EQ(sg_virt(&second[0]), &memory[20]);
}

TEST(KenvScatterList, CopiesFromTheMiddleOfAList) {
  std::string a = "abc";
  std::string b = "defg";
  sg_table table{};
  ASSERT_EQ(sg_alloc_table(&table, 2, GFP_KERNEL), 0);
  sg_set_buf(&table.sgl[0], a.data(), 3);
  sg_set_buf(&table.sgl[1], b.data(), 4);
  std::string to(4, '.');
  EXPECT_EQ(sg_pcopy_to_buffer(table.sgl, 2, to.data(), 4, 2), 4U);
  EXPECT_EQ(to, "cdef");
  EXPECT_EQ(sg_copy_from_buffer(table.sgl, 2, "1234567890", 10), 7U) << "the list ends there";
  EXPECT_EQ(a + b, "1234567");
  sg_free_table(&table);
}

// As a module may have it on its stack: a single entry that nothing marks as the last.
TEST(KenvScatterList, IsReadNoFurtherThanItsCount) {
  const auto entry = std::make_unique<scatterlist>();
  std::string text = "abc";
  entry->page_link = 0;
  sg_set_buf(entry.get(), text.data(), 3);
  scatterlist* sg = nullptr;
  unsigned i = 0;
  unsigned bytes = 0;
  for_each_sg(entry.get(), sg, 1U, i) { bytes += sg->length; }
  EXPECT_EQ(bytes, 3U);
  std::string to(3, '.');
  EXPECT_EQ(sg_copy_to_buffer(entry.get(), 1, to.data(), 8), 3U);
  EXPECT_EQ(to, "abc");
}

TEST(KenvSlab, AlignsPowersOfTwoAndZeroesOnRequest) {
  auto* const piece = static_cast<char*>(kzalloc(512, GFP_KERNEL));
  ASSERT_NE(piece, nullptr);
  EXPECT_EQ(std::bit_cast<unsigned long>(piece) % 512, 0U);
  EXPECT_EQ(std::string(piece, 512), std::string(512, '\0'));
  kfree(piece);
  EXPECT_EQ(kmalloc(0, GFP_KERNEL), ZERO_SIZE_PTR);
  kfree(ZERO_SIZE_PTR);
  EXPECT_EQ(kmalloc_array(~0UL, 2, GFP_KERNEL), nullptr) << "the product is no number";
}

TEST(KenvSlab, KeepsContentsWhenAPieceGrows) {
  auto* piece = static_cast<char*>(kmalloc(4, GFP_KERNEL));
  std::memcpy(piece, "abc", 4);
  piece = static_cast<char*>(krealloc(piece, 4'096, GFP_KERNEL));
  EXPECT_STREQ(piece, "abc");
  kfree(piece);
}

}  // namespace
