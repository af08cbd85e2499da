#include "wire/local_service/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <rdma/ib_user_sa.h>
#include <rdma/rdma_netlink.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <optional>
#include <vector>

#include "base/random.h"

namespace weft::wire::local_service {
namespace {

static_assert(kClient == RDMA_NL_LS && kGroup == RDMA_NL_GROUP_LS);
static_assert(kErrorBit == RDMA_NL_LS_F_ERR && kMandatory == RDMA_NLA_F_MANDATORY);
static_assert(type_of(Operation::Resolve) == RDMA_NL_GET_TYPE(RDMA_NL_LS, RDMA_NL_LS_OP_RESOLVE));
static_assert(type_of(Operation::SetTimeout) ==
              RDMA_NL_GET_TYPE(RDMA_NL_LS, RDMA_NL_LS_OP_SET_TIMEOUT));
static_assert(type_of(Operation::IpResolve) ==
              RDMA_NL_GET_TYPE(RDMA_NL_LS, RDMA_NL_LS_OP_IP_RESOLVE));
static_assert(kPathGmp == IB_PATH_GMP && kPathPrimary == IB_PATH_PRIMARY);
static_assert(kPathAlternate == IB_PATH_ALTERNATE && kPathOutbound == IB_PATH_OUTBOUND);
static_assert(kPathInbound == IB_PATH_INBOUND && kPathInboundReverse == IB_PATH_INBOUND_REVERSE);
static_assert(kPathDataBytes == sizeof(ib_path_rec_data) && kDeviceNameBytes == LS_DEVICE_NAME_MAX);
static_assert(kPathUses == LS_RESOLVE_PATH_USE_MAX);

const Gid kHere{kDefaultGidPrefix, Guid{0x11}};
const Gid kThere{kDefaultGidPrefix, Guid{0x22}};
constexpr Envelope kEnvelope{.sequence = 0xA1B2C3D4, .port = 77, .flags = NLM_F_REQUEST};

[[nodiscard]] ResolveRequest full_request() {
  return {.device_name = "weft0",
          .port = 1,
          .use = PathUse::Gmp,
          .service_id = 0x0102030405060708,
          .dgid = kThere,
          .sgid = kHere,
          .tclass = 9,
          .pkey = PKey{0x8123},
          .qos_class = 0x0ABC};
}

[[nodiscard]] PathData path_data() {
  return {
      .flags = kPathPrimary | kPathGmp | kPathBidirectional,
      .path = {.dgid = kThere,
               .sgid = kHere,
               .dlid = Lid{7},
               .slid = Lid{3},
               .hop_limit = 1,
               .reversible = true,
               .pkey = kDefaultPKey,
               .mtu = 4,
               .rate = 7}
  };
}

/// A structure of the kernel's headers at a place of the datagram.
template <class T>
[[nodiscard]] T at(ByteSpan bytes, std::size_t offset) {
  std::array<std::byte, sizeof(T)> octets{};
  copy_bytes(octets, bytes.subspan(offset, octets.size()));
  return std::bit_cast<T>(octets);
}

/// Attributes by their whole type, as the kernel's own macros walk them.
[[nodiscard]] std::map<unsigned, ByteSpan> attributes(ByteSpan bytes, std::size_t first) {
  std::map<unsigned, ByteSpan> found;
  while (first + NLA_HDRLEN <= bytes.size()) {
    const auto header = at<nlattr>(bytes, first);
    found[header.nla_type] = bytes.subspan(first + NLA_HDRLEN, header.nla_len - NLA_HDRLEN);
    first += NLA_ALIGN(header.nla_len);
  }
  return found;
}

[[nodiscard]] netlink::Message only_message(ByteSpan datagram) {
  const auto message = netlink::take_message(datagram);
  EXPECT_TRUE(message && datagram.empty());
  return message.value_or(netlink::Message{});
}

TEST(LocalServiceMessages, ResolveIsWhatTheKernelsHeadersSay) {  // part of T-NL-6, R-NL-6
  std::vector<std::byte> datagram;
  append(datagram, kEnvelope, full_request());
  const auto header = at<nlmsghdr>(datagram, 0);
  EXPECT_EQ(header.nlmsg_len, datagram.size());
  EXPECT_EQ(header.nlmsg_type, RDMA_NL_GET_TYPE(RDMA_NL_LS, RDMA_NL_LS_OP_RESOLVE));
  EXPECT_EQ(header.nlmsg_seq, 0xA1B2C3D4U);
  EXPECT_EQ(header.nlmsg_pid, 77U);
  const auto resolve = at<rdma_ls_resolve_header>(datagram, NLMSG_HDRLEN);
  const auto name_end = std::ranges::find(resolve.device_name, 0);
  EXPECT_EQ((std::string{std::begin(resolve.device_name), name_end}), "weft0");
  EXPECT_EQ(resolve.port_num, 1);
  EXPECT_EQ(resolve.path_use, LS_RESOLVE_PATH_USE_GMP);
  const auto found = attributes(datagram, NLMSG_HDRLEN + NLMSG_ALIGN(sizeof resolve));
  EXPECT_EQ(found.size(), 6U);
  const auto mandatory = [](unsigned type) { return type | RDMA_NLA_F_MANDATORY; };
  EXPECT_EQ(at<std::uint64_t>(found.at(mandatory(LS_NLA_TYPE_SERVICE_ID)), 0), 0x0102030405060708U);
  EXPECT_THAT(found.at(mandatory(LS_NLA_TYPE_DGID)), ::testing::ElementsAreArray(kThere.octets()));
  EXPECT_THAT(found.at(mandatory(LS_NLA_TYPE_SGID)), ::testing::ElementsAreArray(kHere.octets()));
  EXPECT_EQ(at<std::uint8_t>(found.at(mandatory(LS_NLA_TYPE_TCLASS)), 0), 9);
  EXPECT_EQ(at<std::uint16_t>(found.at(mandatory(LS_NLA_TYPE_PKEY)), 0), 0x8123);
  EXPECT_EQ(at<std::uint16_t>(found.at(mandatory(LS_NLA_TYPE_QOS_CLASS)), 0), 0x0ABC);
}

TEST(LocalServiceMessages, AnswersAreWhatTheKernelsHeadersSay) {  // part of T-NL-6, R-NL-6
  std::vector<std::byte> datagram;
  append(datagram, kEnvelope, ResolveAnswer{{path_data()}});
  auto found = attributes(datagram, NLMSG_HDRLEN);
  const auto record = at<ib_path_rec_data>(found.at(LS_NLA_TYPE_PATH_RECORD), 0);
  EXPECT_EQ(record.flags, unsigned{IB_PATH_PRIMARY | IB_PATH_GMP | IB_PATH_BIDIRECTIONAL});
  // DGID 8 octets behind the service id, DLID 32 further, both in network order.
  const ByteSpan path = found.at(LS_NLA_TYPE_PATH_RECORD).subspan(8);
  EXPECT_THAT(path.subspan(8, 16), ::testing::ElementsAreArray(kThere.octets()));
  EXPECT_THAT(path.subspan(40, 2), ::testing::ElementsAre(std::byte{0}, std::byte{7}));
  datagram.clear();
  append(datagram, kEnvelope, SetTimeout{.milliseconds = 100});
  found = attributes(datagram, NLMSG_HDRLEN);
  EXPECT_EQ(at<std::uint32_t>(found.at(LS_NLA_TYPE_TIMEOUT), 0), 100U);
  datagram.clear();
  append(datagram, kEnvelope,
         IpResolveRequest{.interface_index = 3, .address = IpAddress::v4(0x7F4D'0002)});
  EXPECT_EQ(at<rdma_ls_ip_resolve_header>(datagram, NLMSG_HDRLEN).ifindex, 3U);
  found = attributes(datagram, NLMSG_HDRLEN + sizeof(rdma_ls_ip_resolve_header));
  EXPECT_THAT(found.at(LS_NLA_TYPE_IPV4 | RDMA_NLA_F_MANDATORY),
              ::testing::ElementsAre(std::byte{127}, std::byte{77}, std::byte{0}, std::byte{2}));
  datagram.clear();
  append_failure(datagram, kEnvelope, Operation::Resolve);
  EXPECT_EQ(at<nlmsghdr>(datagram, 0).nlmsg_type,
            RDMA_NL_GET_TYPE(RDMA_NL_LS, RDMA_NL_LS_OP_RESOLVE) | RDMA_NL_LS_F_ERR);
}

TEST(LocalServiceMessages, RoundTrip) {
  std::vector<std::byte> datagram;
  append(datagram, kEnvelope, full_request());
  EXPECT_EQ(parse_resolve_request(only_message(datagram).payload), full_request());
  datagram.clear();
  const ResolveRequest least{.device_name = "mlx5_0", .port = 2, .use = PathUse::All};
  append(datagram, kEnvelope, least);
  EXPECT_EQ(parse_resolve_request(only_message(datagram).payload), least);
  datagram.clear();
  const ResolveAnswer answer{
      {path_data(), PathData{.flags = kPathInbound}}
  };
  append(datagram, kEnvelope, answer);
  EXPECT_EQ(parse_resolve_answer(only_message(datagram).payload), answer);
  datagram.clear();
  append(datagram, kEnvelope, SetTimeout{.milliseconds = 200'000});
  EXPECT_EQ(parse_set_timeout(only_message(datagram).payload), SetTimeout{200'000});
  for (const IpAddress& address : {IpAddress::v4(1), IpAddress::v6(1, 2)}) {
    datagram.clear();
    const IpResolveRequest request{.interface_index = 9, .address = address};
    append(datagram, kEnvelope, request);
    EXPECT_EQ(parse_ip_resolve_request(only_message(datagram).payload), request);
  }
  datagram.clear();
  append(datagram, kEnvelope, IpResolveAnswer{kThere});
  EXPECT_EQ(parse_ip_resolve_answer(only_message(datagram).payload), IpResolveAnswer{kThere});
}

[[nodiscard]] Gid arbitrary_gid(Random& random) { return {random(), Guid{random()}}; }

template <class Value, class Make>
void maybe(Random& random, std::optional<Value>& value, Make make) {
  if (random.chance(1, 2)) {
    value = make();
  }
}

[[nodiscard]] ResolveRequest arbitrary_request(Random& random) {
  ResolveRequest request;
  request.device_name.assign(random.below(kDeviceNameBytes), 'd');
  for (char& letter : request.device_name) {
    letter = static_cast<char>('!' + random.below('~' - '!' + 1));
  }
  request.port = static_cast<std::uint8_t>(random());
  request.use = static_cast<PathUse>(random.below(kPathUses));
  maybe(random, request.service_id, random);
  maybe(random, request.dgid, [&] { return arbitrary_gid(random); });
  maybe(random, request.sgid, [&] { return arbitrary_gid(random); });
  maybe(random, request.tclass, [&] { return static_cast<std::uint8_t>(random()); });
  maybe(random, request.pkey, [&] { return PKey{static_cast<std::uint16_t>(random())}; });
  maybe(random, request.qos_class, [&] { return static_cast<std::uint16_t>(random()); });
  return request;
}

TEST(LocalServiceMessages, OfArbitraryValuesRoundTrip) {  // T-PACK-1 for §32.17
  Random random{17};
  for (int i = 0; i < 1'000; ++i) {
    std::vector<std::byte> datagram;
    const auto read_back = [&](const auto& message) {
      datagram.clear();
      append(datagram, kEnvelope, message);
      return only_message(datagram).payload;
    };
    const ResolveRequest request = arbitrary_request(random);
    ASSERT_EQ(parse_resolve_request(read_back(request)), request);
    ResolveAnswer answer;
    answer.paths.resize(1 + random.below(kMaxPaths));
    for (PathData& each : answer.paths) {
      each = {.flags = static_cast<std::uint32_t>(random()), .path = arbitrary<PathRecord>(random)};
    }
    ASSERT_EQ(parse_resolve_answer(read_back(answer)), answer);
    const SetTimeout timeout{.milliseconds = static_cast<std::uint32_t>(random())};
    ASSERT_EQ(parse_set_timeout(read_back(timeout)), timeout);
    const IpResolveRequest question{
        .interface_index = static_cast<std::uint32_t>(random()),
        .address = random.chance(1, 2) ? IpAddress::v4(static_cast<std::uint32_t>(random()))
                                       : IpAddress::v6(random(), random())};
    ASSERT_EQ(parse_ip_resolve_request(read_back(question)), question);
    const IpResolveAnswer found{arbitrary_gid(random)};
    ASSERT_EQ(parse_ip_resolve_answer(read_back(found)), found);
  }
}

TEST(LocalServiceMessages, RefuseWhatIsCutOffMissingOrUnknown) {
  std::vector<std::byte> datagram;
  append(datagram, kEnvelope, full_request());
  const ByteSpan payload = only_message(datagram).payload;
  for (std::size_t length = 0; length < 66; ++length) {
    EXPECT_FALSE(parse_resolve_request(payload.first(length)));
  }
  auto use = std::vector<std::byte>{payload.begin(), payload.end()};
  use[65] = std::byte{3};
  EXPECT_FALSE(parse_resolve_request(use));
  auto name = std::vector<std::byte>{payload.begin(), payload.end()};
  std::fill_n(name.begin(), kDeviceNameBytes - 1, std::byte{'a'});
  EXPECT_TRUE(parse_resolve_request(name));  // the longest
  name[kDeviceNameBytes - 1] = std::byte{'a'};
  EXPECT_FALSE(parse_resolve_request(name));
  // An attribute that nobody knows: refused if it is mandatory.
  for (const bool is_mandatory : {true, false}) {
    datagram.clear();
    netlink::MessageWriter writer{datagram};
    writer.begin({.type = type_of(Operation::Resolve)});
    writer.put_raw(std::array<std::byte, 68>{});
    writer.put_number(static_cast<std::uint16_t>(12 | (is_mandatory ? kMandatory : 0)),
                      std::uint32_t{1});
    writer.end();
    EXPECT_EQ(parse_resolve_request(only_message(datagram).payload).has_value(), !is_mandatory);
  }
  // A record that is too short, no record, no timeout, no address, no GID.
  datagram.clear();
  netlink::MessageWriter writer{datagram};
  writer.begin({.type = type_of(Operation::Resolve)});
  writer.put(1, std::array<std::byte, 71>{});
  writer.end();
  EXPECT_FALSE(parse_resolve_answer(only_message(datagram).payload));
  EXPECT_FALSE(parse_resolve_answer({}));
  EXPECT_FALSE(parse_set_timeout({}));
  EXPECT_FALSE(parse_ip_resolve_request(std::array<std::byte, 4>{}));
  EXPECT_FALSE(parse_ip_resolve_request({}));
  EXPECT_FALSE(parse_ip_resolve_answer({}));
  datagram.clear();
  append(datagram, kEnvelope, ResolveAnswer{std::vector<PathData>(kMaxPaths + 1)});
  EXPECT_FALSE(parse_resolve_answer(only_message(datagram).payload));
}

}  // namespace
}  // namespace weft::wire::local_service
