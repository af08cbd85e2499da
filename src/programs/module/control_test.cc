#include "programs/module/control.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace weft::programs::modules {
namespace {

[[nodiscard]] Place place_of_test(const std::string& module) {
  return {.fabric = fmt::format("control-test-{}", getpid()), .host = "h1", .name = module};
}

TEST(ModuleControl, RequestsComeOutAsTheyWentIn) {
  const auto request = decode_request(encode(Request{
      .operation = Operation::Write, .entry = "krping", .text = std::string{"a\0b\n", 4}
  }));
  ASSERT_TRUE(request);
  EXPECT_EQ(request->operation, Operation::Write);
  EXPECT_EQ(request->entry, "krping");
  EXPECT_EQ(request->text, std::string("a\0b\n", 4));
}

TEST(ModuleControl, ForeignBytesAreNoRequests) {
  EXPECT_FALSE(decode_request(""));
  EXPECT_FALSE(decode_request("qentry"));
  EXPECT_FALSE(decode_request("wentry")) << "its name has no end";
  EXPECT_FALSE(decode_answer("?"));
  EXPECT_FALSE(decode_answer(""));
}

TEST(ModuleControl, NamesOfSocketsSayWhereAModuleIs) {
  const Place place = place_of_test("blockd");
  const auto found = place_of(socket_name(place));
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, place);
  EXPECT_FALSE(place_of("weft-module/0000000000000000/default/h1/blockd"))
      << "another run directory's";
  EXPECT_FALSE(place_of("something"));
}

TEST(ModuleControl, AModuleIsFoundOnceAsLongAsItListens) {
  const Place place = place_of_test("blockd");
  {
    const auto listener = listen_at(place);
    ASSERT_TRUE(listener) << listener.error().reason;
    const auto connection = connect_to(place);
    ASSERT_TRUE(connection) << connection.error().reason;
    EXPECT_EQ(peer_of(connection->get()), getpid());
    EXPECT_EQ(find_places(place.fabric), std::vector{place});
    EXPECT_TRUE(find_places("another").empty());
    const auto second = listen_at(place);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::NameTaken);
  }
  EXPECT_TRUE(find_places(place.fabric).empty());
  EXPECT_FALSE(connect_to(place));
}

TEST(ModuleControl, NamesThatAreTooLongAreRefusedInWords) {
  const auto listener = listen_at(place_of_test(std::string(100, 'm')));
  ASSERT_FALSE(listener);
  EXPECT_EQ(listener.error().code, ErrorCode::InvalidArgument);
}

}  // namespace
}  // namespace weft::programs::modules
