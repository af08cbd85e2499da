#include "wire/local_service/data_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rdma/ib_user_sa.h>

#include <array>
#include <bit>
#include <variant>
#include <vector>

#include "base/random.h"

namespace weft::wire::local_service {
namespace {

const Gid kHere{kDefaultGidPrefix, Guid{0x11}};
const Gid kThere{kDefaultGidPrefix, Guid{0x22}};

/// The proposal's declaration, word for word in its order: this test's own decoder.
struct ib_nl_data_hdr {  // NOLINT(readability-identifier-naming)
  std::uint8_t version;
  std::uint8_t opcode;
  std::uint16_t status;
  std::uint16_t type;
  std::uint16_t reserved;
  std::uint32_t flags;
  std::uint32_t length;
};

template <class T>
[[nodiscard]] T at(ByteSpan bytes, std::size_t offset) {
  std::array<std::byte, sizeof(T)> octets{};
  copy_bytes(octets, bytes.subspan(offset, octets.size()));
  return std::bit_cast<T>(octets);
}

[[nodiscard]] PathRecord path() {
  return {.dgid = kThere,
          .sgid = kHere,
          .dlid = Lid{0x0107},
          .slid = Lid{3},
          .flow_label = 0x54321,
          .hop_limit = 1,
          .tclass = 8,
          .reversible = true,
          .path_count = 1,
          .pkey = PKey{0x8001},
          .sl = ServiceLevel{5},
          .mtu_selector = Selector::Exactly,
          .mtu = 4,
          .rate_selector = Selector::Exactly,
          .rate = 7,
          .packet_life_time_selector = Selector::Exactly,
          .packet_life_time = 18,
          .preference = 2};
}

/// A message of every type of data.
[[nodiscard]] std::vector<DataMessage> every_message() {
  MadData mad;
  mad.mad.front() = std::byte{1};
  mad.mad.back() = std::byte{9};
  using enum DataOpcode;
  return {
      {.opcode = QueryPath, .flags = kPathPrimary | kQuerySa, .data = path()},
      {.opcode = QueryPath, .is_answer = true, .flags = kPathPrimary, .data = UserPathData{path()}},
      {.opcode = QueryPath, .is_answer = true, .status = DataStatus::NoData},
      {.opcode = QueryPath, .flags = kNoDelay, .data = mad},
      {.opcode = Resolve, .data = NameData{"storage-7"}},
      {.opcode = Resolve, .data = IpAddress::v4(0x7F4D'0002)},
      {.opcode = Resolve, .data = IpAddress::v6(0xFD77'0000'0000'0000, 2)},
      {.opcode = SetTimeout, .data = TimeoutData{100}},
  };
}

[[nodiscard]] std::vector<std::byte> datagram_of(const DataMessage& message) {
  std::vector<std::byte> datagram;
  append(datagram, {.sequence = 5}, message);
  return datagram;
}

[[nodiscard]] ByteSpan payload_of(ByteSpan datagram) {
  return netlink::take_message(datagram)->payload;
}

TEST(LocalServiceData, HeaderIsWhatTheProposalSays) {  // part of T-NL-6, R-NL-2, R-NL-3, R-NL-5
  const auto datagram = datagram_of({.opcode = DataOpcode::QueryPath,
                                     .is_answer = true,
                                     .flags = kQuerySa | kNoDelay | kPathBidirectional,
                                     .data = path()});
  const auto header = at<ib_nl_data_hdr>(datagram, 16);
  EXPECT_EQ(header.version, 1);
  EXPECT_EQ(header.opcode, 0x82);
  EXPECT_EQ(header.status, 0);
  EXPECT_EQ(header.type, 4);
  EXPECT_EQ(header.reserved, 0);
  EXPECT_EQ(header.flags, 1U << 31 | 1U << 30 | 1U << 3 | 1U << 5);
  EXPECT_EQ(header.length, 16U + 64U);
  EXPECT_EQ(datagram.size(), 16U + header.length);
  const auto no_data = datagram_of({.is_answer = true, .status = DataStatus::NoData});
  EXPECT_EQ(at<ib_nl_data_hdr>(no_data, 16).status, 1);
  EXPECT_EQ(at<ib_nl_data_hdr>(no_data, 16).length, 16U);
}

TEST(LocalServiceData, EveryTypeHasItsNumberAndItsOctets) {  // part of T-NL-6, R-NL-1a, R-NL-4
  const std::array<std::array<std::uint32_t, 2>, 8> types_and_lengths = {
      {{4, 64}, {5, 64}, {0, 0}, {6, 256}, {1, 10}, {2, 4}, {3, 16}, {0, 4}}
  };
  const auto messages = every_message();
  ASSERT_EQ(messages.size(), types_and_lengths.size());
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const auto header = at<ib_nl_data_hdr>(datagram_of(messages[i]), 16);
    EXPECT_EQ(header.type, types_and_lengths[i][0]) << i;
    EXPECT_EQ(header.length, 16 + types_and_lengths[i][1]) << i;
  }
}

TEST(LocalServiceData, UserPathIsWhatTheKernelsHeaderSays) {  // part of T-NL-6, R-NL-4
  const auto datagram = datagram_of({.data = UserPathData{path()}});
  const auto user = at<ib_user_path_rec>(datagram, 32);
  EXPECT_THAT(std::as_bytes(std::span{user.dgid}), ::testing::ElementsAreArray(kThere.octets()));
  EXPECT_THAT(std::as_bytes(std::span{user.sgid}), ::testing::ElementsAreArray(kHere.octets()));
  EXPECT_THAT(bytes_of(user.dlid), ::testing::ElementsAre(std::byte{1}, std::byte{7}));
  EXPECT_THAT(bytes_of(user.pkey), ::testing::ElementsAre(std::byte{0x80}, std::byte{1}));
  EXPECT_THAT(bytes_of(user.flow_label),
              ::testing::ElementsAre(std::byte{0}, std::byte{5}, std::byte{0x43}, std::byte{0x21}));
  EXPECT_EQ(user.reversible, 1U);
  EXPECT_EQ(user.mtu, 4U);
  EXPECT_EQ(user.rate, 7);
  EXPECT_EQ(user.sl, 5);
  EXPECT_EQ(user.packet_life_time, 18);
  EXPECT_EQ(user.preference, 2);
}

TEST(LocalServiceData, RoundTrips) {
  for (const DataMessage& message : every_message()) {
    const auto read = parse_data_message(payload_of(datagram_of(message)));
    ASSERT_TRUE(read.has_value()) << read.error().reason;
    EXPECT_EQ(*read, message);
  }
}

[[nodiscard]] Data arbitrary_data(Random& random) {
  switch (random.below(7)) {
    case 0: {
      NameData name;
      name.name.resize(1 + random.below(kMaxNameBytes - 1));
      for (char& letter : name.name) {
        letter = static_cast<char>('!' + random.below('~' - '!' + 1));
      }
      return name;
    }
    case 1:
      return IpAddress::v4(static_cast<std::uint32_t>(random()));
    case 2:
      return IpAddress::v6(0xFD00'0000'0000'0000 | random() >> 8, random());
    case 3:
      return arbitrary<PathRecord>(random);
    case 4: {
      MadData mad;
      for (std::byte& octet : mad.mad) {
        octet = static_cast<std::byte>(random());
      }
      return mad;
    }
    case 5:
      return TimeoutData{static_cast<std::uint32_t>(random())};
    default:
      return {};
  }
}

TEST(LocalServiceData, OfArbitraryValuesRoundTrips) {  // T-PACK-1 for §32.17
  constexpr auto kOpcodes =
      std::to_array({DataOpcode::Resolve, DataOpcode::QueryPath, DataOpcode::SetTimeout});
  Random random{18};
  for (int i = 0; i < 3'000; ++i) {
    DataMessage message{.opcode = kOpcodes[random.below(kOpcodes.size())],
                        .is_answer = random.chance(1, 2),
                        .status = static_cast<DataStatus>(random.below(2)),
                        .flags = static_cast<std::uint32_t>(random()),
                        .data = arbitrary_data(random)};
    if (std::holds_alternative<TimeoutData>(message.data)) {
      message.opcode = DataOpcode::SetTimeout;  // the only one with data of this kind
    }
    const auto read = parse_data_message(payload_of(datagram_of(message)));
    ASSERT_TRUE(read.has_value()) << read.error().reason;
    ASSERT_EQ(*read, message);
  }
}

TEST(LocalServiceData, RefusesWhatItDoesNotSay) {
  // Each octet of the header that another value makes wrong, with that value.
  struct Change {
    std::size_t at;
    unsigned value;
    const char* what;
  };
  const auto good = datagram_of({.data = path()});
  for (const Change& change : {
           Change{0,  2,    "version"},
           Change{1,  0,    "opcode" },
           Change{1,  4,    "opcode" },
           Change{1,  0x42, "opcode" },
           Change{2,  2,    "status" },
           Change{4,  7,    "type"   },
           Change{4,  2,    "type"   },
           Change{12, 15,   "length" },
           Change{12, 81,   "length" }
  }) {
    auto datagram = good;
    datagram[16 + change.at] = static_cast<std::byte>(change.value);
    const auto read = parse_data_message(payload_of(datagram));
    ASSERT_FALSE(read.has_value()) << change.what << change.value;
    EXPECT_THAT(read.error().reason, ::testing::HasSubstr(change.what));
  }
  for (std::size_t length = 0; length < good.size() - 16; ++length) {
    EXPECT_FALSE(parse_data_message(payload_of(good).first(length)));
  }
  // A name without its NUL, and one with two; a user's path with an SL that there is not.
  auto name = datagram_of({.opcode = DataOpcode::Resolve, .data = NameData{"ab"}});
  name[34] = std::byte{'c'};
  EXPECT_FALSE(parse_data_message(payload_of(name)));
  name[34] = name[33] = std::byte{0};
  EXPECT_FALSE(parse_data_message(payload_of(name)));
  auto user = datagram_of({.data = UserPathData{path()}});
  user[32 + 57] = std::byte{16};
  EXPECT_FALSE(parse_data_message(payload_of(user)));
}

}  // namespace
}  // namespace weft::wire::local_service
