#include "base/one_of.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

namespace weft {
namespace {

struct Number {
  int value{};
};
struct Word {
  std::string text;
};
/// Counts those that live.
struct Counted {
  std::shared_ptr<int> of;
};
using Value = OneOf<Number, Word, Counted>;

TEST(OneOf, KnowsItsKind) {
  const Value value{Word{"three"}};
  EXPECT_EQ(value.index(), 1U);
  EXPECT_TRUE(value.holds<Word>());
  EXPECT_FALSE(value.holds<Number>());
  EXPECT_EQ(value.get_if<Number>(), nullptr);
  EXPECT_EQ(value.get<Word>().text, "three");
}

TEST(OneOf, IsCopiedWithoutChangingTheOther) {
  const Value first{Word{"a text that is longer than a small string"}};
  Value second{first};
  second.get_if<Word>()->text = "another";
  EXPECT_EQ(first.get<Word>().text, "a text that is longer than a small string");
  Value third{Number{3}};
  third = first;
  EXPECT_EQ(third.get<Word>().text, first.get<Word>().text);
}

TEST(OneOf, KeepsItsKindWhenItIsMovedFrom) {
  Value first{Word{"a text that is longer than a small string"}};
  Value second{Number{2}};
  second = std::move(first);
  EXPECT_EQ(second.get<Word>().text, "a text that is longer than a small string");
  EXPECT_TRUE(first.holds<Word>());  // NOLINT(bugprone-use-after-move)
}

TEST(OneOf, EndsEachValueOnce) {
  const auto living = std::make_shared<int>();
  {
    Value value{Counted{living}};
    Value copy{value};
    EXPECT_EQ(living.use_count(), 3);
    copy = Number{1};
    EXPECT_EQ(living.use_count(), 2);
    Value& same = value;
    value = same;
    EXPECT_EQ(living.use_count(), 2);
    value = std::move(same);
    EXPECT_EQ(living.use_count(), 2);
  }
  EXPECT_EQ(living.use_count(), 1);
}

TEST(OneOf, IsVisitedAsWhatItIs) {
  Value value{Number{4}};
  value.visit([]<class Kind>(Kind& each) {
    if constexpr (requires { each.value; }) {
      ++each.value;
    }
  });
  const Value& same = value;
  EXPECT_EQ(same.visit([]<class Kind>(const Kind& each) {
    if constexpr (requires { each.value; }) {
      return each.value;
    } else {
      return 0;
    }
  }),
            5);
  EXPECT_EQ(Value::visit_kind(
                1, []<class Kind>(std::type_identity<Kind>) { return Value{Kind{}}.index(); }),
            1U);
}

}  // namespace
}  // namespace weft
