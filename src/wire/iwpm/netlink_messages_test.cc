#include "wire/iwpm/netlink_messages.h"

#include <gtest/gtest.h>
#include <rdma/rdma_netlink.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"

namespace weft::wire::iwpm {
namespace {

static_assert(kClientIwcm == RDMA_NL_IWCM && kClients == RDMA_NL_NUM_CLIENTS);
static_assert(kGroup == RDMA_NL_GROUP_IWPM && kAbi == IWPM_UABI_VERSION &&
              kAbiMin == IWPM_UABI_VERSION_MIN);
static_assert(kFlagNoPortMap == IWPM_FLAGS_NO_PORT_MAP && kOperations == RDMA_NL_IWPM_NUM_OPS);
static_assert(type_of(2, Operation::Hello) == RDMA_NL_GET_TYPE(RDMA_NL_IWCM, RDMA_NL_IWPM_HELLO));
static_assert(static_cast<int>(Operation::RemoveMapping) == RDMA_NL_IWPM_REMOVE_MAPPING);
static_assert(static_cast<int>(Operation::RemoteInfo) == RDMA_NL_IWPM_REMOTE_INFO);
static_assert(static_cast<int>(Operation::HandleError) == RDMA_NL_IWPM_HANDLE_ERR);
static_assert(static_cast<int>(Operation::Mapinfo) == RDMA_NL_IWPM_MAPINFO);
static_assert(static_cast<int>(Operation::MapinfoCount) == RDMA_NL_IWPM_MAPINFO_NUM);

/// One past the last attribute, as Linux counts; the last is there when it has that number.
template <class Message>
inline constexpr std::size_t kMax = Message::List::kPolicy.size() + 1;
static_assert(kMax<RegisterPid> == IWPM_NLA_REG_PID_MAX);
static_assert(kMax<RegisterPidAnswer> == IWPM_NLA_RREG_PID_MAX);
static_assert(kMax<AddMapping> == IWPM_NLA_MANAGE_MAPPING_MAX);
static_assert(kMax<AddMappingAnswer> == IWPM_NLA_RMANAGE_MAPPING_MAX);
static_assert(kMax<RemoveMapping> == IWPM_NLA_REMOVE_MAPPING_MAX);
static_assert(kMax<QueryMapping> == IWPM_NLA_QUERY_MAPPING_MAX);
static_assert(kMax<ConnectionInfo> == IWPM_NLA_RQUERY_MAPPING_MAX);
static_assert(kMax<MapinfoRequest> == IWPM_NLA_MAPINFO_REQ_MAX);
static_assert(kMax<Mapinfo> == IWPM_NLA_MAPINFO_MAX);
static_assert(kMax<MapinfoCount> == IWPM_NLA_MAPINFO_SEND_MAX);
static_assert(kMax<MapinfoCountAnswer> == IWPM_NLA_MAPINFO_NUM_MAX);
static_assert(kMax<HandleError> == IWPM_NLA_ERR_MAX && kMax<Hello> == IWPM_NLA_HELLO_MAX);

const SocketAddress kLocal{IpAddress::v4(0x0A00'0001), 80};
const SocketAddress kRemote{IpAddress::v6(0xFD00'0000'0000'0000, 2), 81};

template <class Message>
std::vector<std::byte> datagram_of(const Message& message, std::uint16_t abi = kAbi) {
  std::vector<std::byte> datagram;
  EXPECT_TRUE(append(datagram, kMessageRoom, {.sequence = 7, .port = 5}, message, abi));
  return datagram;
}

netlink::Message first_of(ByteSpan datagram) {
  const auto message = netlink::take_message(datagram);
  EXPECT_TRUE(message.has_value());
  return message.value_or(netlink::Message{});
}

template <class Message>
void round_trip(const Message& message) {
  const auto datagram = datagram_of(message);
  const auto taken = first_of(datagram);
  EXPECT_EQ(client_of(taken.header.type), kClientIwcm);
  EXPECT_EQ(operation_of(taken.header.type), Message::kOperation);
  EXPECT_EQ(taken.header.sequence, 7U);
  EXPECT_EQ(taken.header.port, 5U);
  EXPECT_TRUE(taken.header.is_request());
  const auto parsed = parse<Message>(taken.payload);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().reason;
  EXPECT_TRUE(*parsed == message) << Message::kName;
}

TEST(IwpmNetlink, EveryMessageRoundTrips) {
  round_trip(RegisterPid{1, "eth0", "weft0", std::string{kLibraryName}});
  round_trip(RegisterPidAnswer{2, "weft0", std::string{kLibraryName}, 4, 15});
  round_trip(AddMapping{3, kLocal, kFlagNoPortMap});
  round_trip(AddMappingAnswer{4, kLocal, kLocal.with_port(9), 0});
  round_trip(QueryMapping{5, kLocal, kRemote, 0});
  round_trip(ConnectionInfo{6, kLocal, kRemote, kLocal.with_port(9), kRemote.with_port(8), 16});
  round_trip(RemoveMapping{7, kRemote});
  round_trip(MapinfoRequest{std::string{kLibraryName}, 3});
  round_trip(Mapinfo{kLocal, kLocal.with_port(9), 1});
  round_trip(MapinfoCount{8, 100'000});
  round_trip(MapinfoCountAnswer{9, 2, 1});
  round_trip(HandleError{10, 17});
  round_trip(Hello{4});
}

[[nodiscard]] SocketAddress arbitrary_address(Random& random) {
  const auto port = static_cast<std::uint16_t>(random());
  return random.chance(1, 2)
             ? SocketAddress{IpAddress::v4(static_cast<std::uint32_t>(random())), port}
             : SocketAddress{IpAddress::v6(random(), random()), port};
}

[[nodiscard]] std::string arbitrary_name(Random& random, std::size_t room) {
  std::string name(1 + random.below(room - 1), 'n');
  for (char& letter : name) {
    letter = static_cast<char>('!' + random.below('~' - '!' + 1));
  }
  return name;
}

TEST(IwpmNetlink, MessagesOfArbitraryValuesRoundTrip) {  // T-PACK-1 for §32.17
  Random random{19};
  const auto word = [&] { return static_cast<std::uint32_t>(random()); };
  const auto half = [&] { return static_cast<std::uint16_t>(random()); };
  const auto address = [&] { return arbitrary_address(random); };
  const auto name = [&](std::size_t room) { return arbitrary_name(random, room); };
  for (int i = 0; i < 1'000; ++i) {
    round_trip(RegisterPid{word(), name(kInterfaceNameBytes), name(kDeviceNameBytes),
                           name(kLibraryNameBytes)});
    round_trip(
        RegisterPidAnswer{word(), name(kDeviceNameBytes), name(kLibraryNameBytes), half(), half()});
    round_trip(AddMapping{word(), address(), word()});
    round_trip(AddMappingAnswer{word(), address(), address(), half()});
    round_trip(QueryMapping{word(), address(), address(), word()});
    round_trip(ConnectionInfo{word(), address(), address(), address(), address(), half()});
    round_trip(RemoveMapping{word(), address()});
    round_trip(MapinfoRequest{name(kLibraryNameBytes), half()});
    round_trip(Mapinfo{address(), address(), word()});
    round_trip(MapinfoCount{word(), word()});
    round_trip(MapinfoCountAnswer{word(), word(), word()});
    round_trip(HandleError{word(), half()});
    round_trip(Hello{half()});
    ASSERT_FALSE(HasFailure());
  }
}

// Part of T-IWPM-5: a missing attribute is an error, for each message and each attribute.
template <class Message>
void miss_each(const Message& message) {
  const auto datagram = datagram_of(message);
  const auto attributes = netlink::parse_attributes(first_of(datagram).payload);
  for (std::size_t missing = 0; missing < attributes.size(); ++missing) {
    std::vector<std::byte> shorter;
    netlink::MessageWriter writer{shorter};
    writer.begin({});
    for (std::size_t i = 0; i < attributes.size(); ++i) {
      if (i != missing) {
        writer.put(attributes[i].type, attributes[i].value);
      }
    }
    writer.end();
    const auto parsed = parse<Message>(first_of(shorter).payload);
    ASSERT_FALSE(parsed.has_value()) << Message::kName << " without " << missing + 1;
    EXPECT_EQ(parsed.error().code, ErrorCode::InvalidArgument);
  }
}

TEST(IwpmNetlink, MissingAttributeIsAnError) {
  miss_each(RegisterPid{1, "eth0", "weft0", "x"});
  miss_each(RegisterPidAnswer{2, "weft0", "x", 4, 15});
  miss_each(AddMapping{3, kLocal, kFlagNoPortMap});
  miss_each(AddMappingAnswer{4, kLocal, kLocal, 0});
  miss_each(QueryMapping{5, kLocal, kRemote, 0});
  miss_each(ConnectionInfo{6, kLocal, kRemote, kLocal, kRemote, 16});
  miss_each(RemoveMapping{7, kRemote});
  miss_each(MapinfoRequest{"x", 3});
  miss_each(Mapinfo{kLocal, kLocal, 1});
  miss_each(MapinfoCount{8, 1});
  miss_each(MapinfoCountAnswer{9, 2, 1});
  miss_each(HandleError{10, 17});
  miss_each(Hello{4});
}

TEST(IwpmNetlink, ValidateLooksAtEveryNumberButZero) {
  AttributeTable table;
  EXPECT_TRUE(validate_attributes(table, 1).has_value());
  EXPECT_FALSE(validate_attributes(table, 2).has_value());
  table[1] = netlink::Attribute{};
  table[2] = netlink::Attribute{};
  EXPECT_TRUE(validate_attributes(table, 3).has_value());
  EXPECT_FALSE(validate_attributes(table, 4).has_value());
}

// T-IWPM-5: the other half of it is MissingAttributeIsAnError above.
TEST(IwpmNetlink, NoMessageWhereThereIsNoRoom) {
  std::vector<std::byte> missing;
  netlink::MessageWriter writer{missing};
  writer.begin({});
  writer.end();
  EXPECT_FALSE(parse<Hello>(first_of(missing).payload).has_value());

  const Hello hello{4};
  const std::size_t whole = datagram_of(hello).size();
  std::vector<std::byte> datagram;
  EXPECT_FALSE(create_message(datagram, 4, {}, Operation::Hello, 0).has_value());
  for (std::size_t room = 0; room < whole; ++room) {
    EXPECT_FALSE(append(datagram, room, {}, hello)) << room;
    EXPECT_TRUE(datagram.empty()) << room;
  }
  EXPECT_TRUE(append(datagram, whole, {}, hello));
  EXPECT_EQ(datagram.size(), whole);
  // Behind another one: it needs four octets more than are left.
  EXPECT_FALSE(append(datagram, whole + whole - 4, {}, hello));
  EXPECT_EQ(datagram.size(), whole);
}

TEST(IwpmNetlink, OfVersion3RequestsHaveNoFlags) {
  const AddMapping add{1, kLocal, 0};
  const auto old_form = datagram_of(add, 3);
  EXPECT_EQ(datagram_of(add).size(), old_form.size() + 8);
  EXPECT_TRUE(parse<AddMapping>(first_of(old_form).payload, 3).has_value());
  EXPECT_FALSE(parse<AddMapping>(first_of(old_form).payload, 4).has_value());
  // Flags that a version does not have are ignored, as every number beyond the policy.
  const auto new_form = datagram_of(AddMapping{1, kLocal, kFlagNoPortMap});
  EXPECT_EQ(parse<AddMapping>(first_of(new_form).payload, 3)->flags, 0U);
}

TEST(IwpmNetlink, ChecksEachAttributeAgainstThePolicy) {
  const auto parse_with = [](std::uint16_t type, ByteSpan value) {
    std::vector<std::byte> datagram;
    netlink::MessageWriter writer{datagram};
    writer.begin({});
    writer.put_text(1, "x");
    writer.put_number(2, std::uint16_t{3});
    writer.put(type, value);  // the last one counts
    writer.end();
    return parse<MapinfoRequest>(first_of(datagram).payload).has_value();
  };
  const std::vector<std::byte> letters(40, std::byte{'a'});
  std::vector<std::byte> text = letters;
  text[31] = {};
  EXPECT_TRUE(parse_with(1, ByteSpan{text}.first(32)));
  EXPECT_FALSE(parse_with(1, ByteSpan{text}.first(33)));    // too long
  EXPECT_FALSE(parse_with(1, ByteSpan{letters}.first(8)));  // without an end
  EXPECT_TRUE(parse_with(2, ByteSpan{letters}.first(2)));
  EXPECT_FALSE(parse_with(2, ByteSpan{letters}.first(4)));
  EXPECT_FALSE(parse_with(2, {}));
  EXPECT_TRUE(parse_with(3, letters));  // unknown
}

TEST(IwpmNetlink, NamesArePaddedAndCut) {
  const std::string longest(40, 'n');
  const auto datagram = datagram_of(RegisterPid{1, longest, "d", "l"});
  // 16 of the header; numbers 8; names 16, 32 and 32 with 4 each.
  EXPECT_EQ(datagram.size(), 16U + 8 + 20 + 36 + 36);
  const auto parsed = parse<RegisterPid>(first_of(datagram).payload);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->interface_name, longest.substr(0, 15));
}

}  // namespace
}  // namespace weft::wire::iwpm
