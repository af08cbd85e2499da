// RDMA_NL_NLDEV as Linux 6.1 answers: what `rdma dev|link|res|stat` ask.

#include "host_view/nldev.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rdma/rdma_netlink.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "host_view/nldev_attributes.h"
#include "host_view/rdma_netlink.h"

namespace weft::host_view {
namespace {

using ::testing::ElementsAre;
using wire::netlink::Attribute;
using wire::netlink::Message;
using wire::netlink::MessageWriter;
using A = NldevAttribute;
using C = NldevCommand;

// The kernel's ABI, where its values could slip: the first and last of each run of numbers.
static_assert(std::to_underlying(A::NdevName) == RDMA_NLDEV_ATTR_NDEV_NAME);
static_assert(std::to_underlying(A::ResPdn) == RDMA_NLDEV_ATTR_RES_PDN);
static_assert(std::to_underlying(A::SysNetnsMode) == RDMA_NLDEV_SYS_ATTR_NETNS_MODE);
static_assert(std::to_underlying(A::DevProtocol) == RDMA_NLDEV_ATTR_DEV_PROTOCOL);
static_assert(std::to_underlying(A::ChardevType) == RDMA_NLDEV_ATTR_CHARDEV_TYPE);
static_assert(std::to_underlying(A::StatHwcounters) == RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
static_assert(std::to_underlying(A::ResSrqn) == RDMA_NLDEV_ATTR_RES_SRQN);
static_assert(std::to_underlying(A::SysCopyOnFork) == RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK);
static_assert(std::to_underlying(C::ResSrqGet) == RDMA_NLDEV_CMD_RES_SRQ_GET);
static_assert(std::to_underlying(C::StatGet) == RDMA_NLDEV_CMD_STAT_GET);
static_assert(type_of(Client::Nldev, 1) == RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET));

[[nodiscard]] HostView host() {
  PortView port{.number = 1,
                .capability_mask = 0x02510868,
                .capability_mask2 = 3,
                .subnet_prefix = 0xFE80'0000'0000'0000,
                .lid = Lid{7},
                .sm_lid = Lid{1},
                .state = 4,
                .physical_state = 5};
  port.hardware_counters = {
      {"rx_write_requests", 12},
      {"out_of_sequence",   3 }
  };
  ProgramView program{.pid = 4321, .context = 2};
  program.pds = {
      {.number = 1, .users = 2}
  };
  program.cqs = {
      {.number = 5, .entries = 128, .users = 2}
  };
  program.mrs = {
      {.number = 9, .rkey = 0xABCD, .lkey = 0x1234, .length = 65'536, .pd = 1}
  };
  program.qps = {
      {.port = 1,
       .number = Qpn{0x2001},
       .remote = Qpn{0x4001},
       .receive_psn = 77,
       .send_psn = 88,
       .migration_state = 0,
       .type = 2,
       .state = 3,
       .pd = 1},
      {.number = Qpn{0x2002}, .type = 4, .state = 0, .pd = 1}
  };
  program.srqs = {
      {.number = 3, .type = 0, .pd = 1}
  };
  program.cm_ids = {
      {.number = 8,
       .port = 1,
       .qp = Qpn{0x2001},
       .qp_type = 2,
       .port_space = 0x106,
       .state = 7,
       .source = std::vector<std::byte>(16, std::byte{2})}
  };
  DeviceView device{.index = 3,
                    .name = "weft0",
                    .capability_flags = 0x21361C36,
                    .firmware_version = "1.0.0",
                    .node_guid = Guid{0x5EED},
                    .system_image_guid = Guid{0x5EEE},
                    .protocol = "ib"};
  device.ports = {port};
  device.programs = {program};
  HostView view;
  view.devices = {device};
  view.character_devices = {
      {.type = "uverbs", .name = "uverbs0", .abi = 1, .number = 0xE7C0, .device = 3, .port = {}}
  };
  return view;
}

struct Answered {
  std::vector<std::vector<std::byte>> datagrams;
  std::vector<Message> messages{};
};

struct Ask {
  C command;
  std::vector<std::pair<A, std::uint32_t>> numbers{};
  bool is_dump{};
  bool may_administer{true};
  HostView view = host();
};

[[nodiscard]] Answered ask(const Ask& question) {
  std::vector<std::byte> datagram;
  MessageWriter writer{datagram};
  writer.begin(
      {.type = type_of(Client::Nldev, std::to_underlying(question.command)),
       .flags = static_cast<std::uint16_t>(wire::netlink::kFlagRequest | wire::netlink::kFlagAck |
                                           (question.is_dump ? wire::netlink::kFlagDump : 0)),
       .sequence = 11,
       .port = 12});
  for (const auto& [type, value] : question.numbers) {
    writer.put_number(std::to_underlying(type), value);
  }
  writer.end();
  Answered answered{.datagrams = answer(datagram, question.view,
                                        {.may_administer = question.may_administer}, nullptr)};
  for (const auto& bytes : answered.datagrams) {
    ByteSpan rest = bytes;
    while (const auto message = wire::netlink::take_message(rest)) {
      answered.messages.push_back(*message);
    }
  }
  return answered;
}

[[nodiscard]] int error_of(const Message& message) {
  EXPECT_EQ(message.header.type, wire::netlink::kTypeError);
  int error = 1;
  std::memcpy(&error, message.payload.data(), sizeof error);
  return error;
}

/// The only message before the acknowledgement, its attributes.
[[nodiscard]] std::vector<Attribute> only(const Answered& answered) {
  EXPECT_EQ(answered.messages.size(), 2U);
  EXPECT_EQ(error_of(answered.messages.at(1)), 0);
  EXPECT_EQ(answered.messages.at(0).header.sequence, 11U);
  EXPECT_EQ(answered.messages.at(0).header.port, 12U);
  return wire::netlink::parse_attributes(answered.messages.at(0).payload);
}

template <class T>
[[nodiscard]] std::uint64_t number(const std::vector<Attribute>& attributes, A type) {
  const Attribute* const found = find(attributes, std::to_underlying(type));
  return found == nullptr ? ~std::uint64_t{0} : found->number<T>().value_or(static_cast<T>(-1));
}

[[nodiscard]] std::string text(const std::vector<Attribute>& attributes, A type) {
  const Attribute* const found = find(attributes, std::to_underlying(type));
  return found == nullptr ? "(none)" : std::string{found->text().value_or("(no text)")};
}

[[nodiscard]] std::vector<Attribute> inside(const std::vector<Attribute>& attributes, A type) {
  const Attribute* const found = find(attributes, std::to_underlying(type));
  return found == nullptr ? std::vector<Attribute>{}
                          : wire::netlink::parse_attributes(found->value);
}

TEST(Nldev, DescribesADevice) {
  const auto answered = ask({C::Get, {{A::DevIndex, 3}}});
  const auto device = only(answered);
  EXPECT_EQ(number<std::uint32_t>(device, A::DevIndex), 3U);
  EXPECT_EQ(text(device, A::DevName), "weft0");
  EXPECT_EQ(number<std::uint32_t>(device, A::PortIndex), 1U);
  EXPECT_EQ(number<std::uint64_t>(device, A::CapFlags), 0x21361C36U);
  EXPECT_EQ(text(device, A::FwVersion), "1.0.0");
  EXPECT_EQ(number<std::uint64_t>(device, A::NodeGuid), 0x5EEDU);
  EXPECT_EQ(number<std::uint64_t>(device, A::SysImageGuid), 0x5EEEU);
  EXPECT_EQ(number<std::uint8_t>(device, A::DevNodeType), std::uint64_t{RDMA_NODE_IB_CA});
  EXPECT_EQ(text(device, A::DevProtocol), "ib");
}

TEST(Nldev, DumpEndsWithDoneInsteadOfAnAcknowledgement) {
  HostView two = host();
  two.devices.push_back(two.devices.front());
  two.devices.back().index = 4;
  two.devices.back().name = "weft1";
  const auto answered = ask({.command = C::Get, .is_dump = true, .view = two});
  ASSERT_EQ(answered.messages.size(), 3U);
  EXPECT_EQ(answered.messages[0].header.flags, wire::netlink::kFlagMulti);
  EXPECT_EQ(text(wire::netlink::parse_attributes(answered.messages[1].payload), A::DevName),
            "weft1");
  EXPECT_EQ(answered.messages[2].header.type, wire::netlink::kTypeDone);
}

TEST(Nldev, DescribesAPort) {
  const auto answered = ask({
      C::PortGet, {{A::DevIndex, 3}, {A::PortIndex, 1}}
  });
  const auto port = only(answered);
  EXPECT_EQ(number<std::uint64_t>(port, A::CapFlags), 0x3'0251'0868U);
  EXPECT_EQ(number<std::uint64_t>(port, A::SubnetPrefix), 0xFE80'0000'0000'0000U);
  EXPECT_EQ(number<std::uint32_t>(port, A::Lid), 7U);
  EXPECT_EQ(number<std::uint32_t>(port, A::SmLid), 1U);
  EXPECT_EQ(number<std::uint8_t>(port, A::Lmc), 0U);
  EXPECT_EQ(number<std::uint8_t>(port, A::PortState), 4U);
  EXPECT_EQ(number<std::uint8_t>(port, A::PortPhysState), 5U);
  EXPECT_EQ(text(port, A::NdevName), "(none)");
}

TEST(Nldev, NamesTheInterfaceOnTopOfAPort) {
  HostView view = host();
  view.devices[0].ports[0].interface_index = 12;
  view.devices[0].ports[0].interface_name = "ib0";
  const auto answered =
      ask({.command = C::PortGet, .numbers = {{A::DevIndex, 3}}, .is_dump = true, .view = view});
  ASSERT_EQ(answered.messages.size(), 2U);
  const auto port = wire::netlink::parse_attributes(answered.messages[0].payload);
  EXPECT_EQ(number<std::uint32_t>(port, A::NdevIndex), 12U);
  EXPECT_EQ(text(port, A::NdevName), "ib0");
}

TEST(Nldev, CountsWhatProgramsHold) {
  const auto answered = ask({C::ResGet, {{A::DevIndex, 3}}});
  std::vector<std::pair<std::string, std::uint64_t>> summary;
  for (const Attribute& entry : inside(only(answered), A::ResSummary)) {
    EXPECT_EQ(entry.type, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY);
    const auto fields = wire::netlink::parse_attributes(entry.value);
    summary.emplace_back(text(fields, A::ResSummaryEntryName),
                         number<std::uint64_t>(fields, A::ResSummaryEntryCurr));
  }
  using Row = std::pair<std::string, std::uint64_t>;
  EXPECT_THAT(summary, ElementsAre(Row{"pd", 1}, Row{"cq", 1}, Row{"qp", 2}, Row{"cm_id", 1},
                                   Row{"mr", 1}, Row{"ctx", 1}, Row{"srq", 1}));
}

TEST(Nldev, ListsQps) {
  const auto answered =
      ask({.command = C::ResQpGet, .numbers = {{A::DevIndex, 3}}, .is_dump = true});
  ASSERT_EQ(answered.messages.size(), 2U);
  const auto message = wire::netlink::parse_attributes(answered.messages[0].payload);
  EXPECT_EQ(text(message, A::DevName), "weft0");
  const auto entries = inside(message, A::ResQp);
  ASSERT_EQ(entries.size(), 2U);
  const auto connected = wire::netlink::parse_attributes(entries[0].value);
  EXPECT_EQ(number<std::uint32_t>(connected, A::PortIndex), 1U);
  EXPECT_EQ(number<std::uint32_t>(connected, A::ResLqpn), 0x2001U);
  EXPECT_EQ(number<std::uint32_t>(connected, A::ResRqpn), 0x4001U);
  EXPECT_EQ(number<std::uint32_t>(connected, A::ResRqPsn), 77U);
  EXPECT_EQ(number<std::uint32_t>(connected, A::ResSqPsn), 88U);
  EXPECT_EQ(number<std::uint8_t>(connected, A::ResType), 2U);
  EXPECT_EQ(number<std::uint8_t>(connected, A::ResState), 3U);
  EXPECT_EQ(number<std::uint32_t>(connected, A::ResPid), 4321U);
  const auto datagram = wire::netlink::parse_attributes(entries[1].value);
  EXPECT_EQ(find(datagram, std::to_underlying(A::ResRqpn)), nullptr);
  EXPECT_EQ(find(datagram, std::to_underlying(A::PortIndex)), nullptr);
}

TEST(Nldev, ListsOnlyTheQpsOfAPortThatIsNamed) {
  const auto of_one = ask({
      .command = C::ResQpGet, .numbers = {{A::DevIndex, 3}, {A::PortIndex, 1}},
           .is_dump = true
  });
  EXPECT_EQ(inside(wire::netlink::parse_attributes(of_one.messages.at(0).payload), A::ResQp).size(),
            1U);
  const auto of_none = ask({
      .command = C::ResQpGet, .numbers = {{A::DevIndex, 3}, {A::PortIndex, 2}},
           .is_dump = true
  });
  EXPECT_EQ(error_of(of_none.messages.at(0)), -EINVAL);
}

TEST(Nldev, ListsTheOtherKinds) {
  const auto entry = [](C command, A table) {
    const auto answered = ask({.command = command, .numbers = {{A::DevIndex, 3}}, .is_dump = true});
    const auto entries =
        inside(wire::netlink::parse_attributes(answered.messages.at(0).payload), table);
    std::vector<std::uint16_t> types;
    for (const Attribute& attribute : wire::netlink::parse_attributes(entries.at(0).value)) {
      types.push_back(attribute.type);
    }
    return types;
  };
  EXPECT_THAT(
      entry(C::ResCqGet, A::ResCq),
      ElementsAre(RDMA_NLDEV_ATTR_RES_CQE, RDMA_NLDEV_ATTR_RES_USECNT, RDMA_NLDEV_ATTR_DEV_DIM,
                  RDMA_NLDEV_ATTR_RES_CQN, RDMA_NLDEV_ATTR_RES_CTXN, RDMA_NLDEV_ATTR_RES_PID));
  EXPECT_THAT(entry(C::ResPdGet, A::ResPd),
              ElementsAre(RDMA_NLDEV_ATTR_RES_USECNT, RDMA_NLDEV_ATTR_RES_PDN,
                          RDMA_NLDEV_ATTR_RES_CTXN, RDMA_NLDEV_ATTR_RES_PID));
  EXPECT_THAT(
      entry(C::ResCmIdGet, A::ResCmId),
      ElementsAre(RDMA_NLDEV_ATTR_PORT_INDEX, RDMA_NLDEV_ATTR_RES_LQPN, RDMA_NLDEV_ATTR_RES_TYPE,
                  RDMA_NLDEV_ATTR_RES_PS, RDMA_NLDEV_ATTR_RES_STATE, RDMA_NLDEV_ATTR_RES_SRC_ADDR,
                  RDMA_NLDEV_ATTR_RES_CM_IDN, RDMA_NLDEV_ATTR_RES_PID));
  EXPECT_THAT(entry(C::ResCtxGet, A::ResCtx),
              ElementsAre(RDMA_NLDEV_ATTR_RES_CTXN, RDMA_NLDEV_ATTR_RES_PID));
  EXPECT_THAT(entry(C::ResSrqGet, A::ResSrq),
              ElementsAre(RDMA_NLDEV_ATTR_RES_SRQN, RDMA_NLDEV_ATTR_RES_TYPE,
                          RDMA_NLDEV_ATTR_RES_PDN, RDMA_NLDEV_ATTR_RES_PID));
}

TEST(Nldev, ShowsKeysOnlyToWhoMayAdministerTheHost) {
  for (const bool may : {true, false}) {
    const auto answered = ask({
        .command = C::ResMrGet,
        .numbers = {{A::DevIndex, 3}, {A::ResMrn, 9}},
        .may_administer = may
    });
    const auto mr = only(answered);
    EXPECT_EQ(find(mr, std::to_underlying(A::ResRkey)) != nullptr, may);
    EXPECT_EQ(find(mr, std::to_underlying(A::ResLkey)) != nullptr, may);
    EXPECT_EQ(number<std::uint64_t>(mr, A::ResMrlen), 65'536U);
  }
}

TEST(Nldev, FindsOneObjectByItsNumber) {
  const auto answered = ask({
      C::ResQpGet, {{A::DevIndex, 3}, {A::ResLqpn, 0x2002}}
  });
  EXPECT_EQ(number<std::uint8_t>(only(answered), A::ResType), 4U);
  EXPECT_EQ(error_of(ask({
                             C::ResQpGet, {{A::DevIndex, 3}, {A::ResLqpn, 0x9999}}
  })
                         .messages.at(0)),
            -ENOENT);
  EXPECT_EQ(error_of(ask({C::ResQpGet, {{A::DevIndex, 3}}}).messages.at(0)), -EINVAL);
}

TEST(Nldev, CutsALongDumpIntoMessages) {
  HostView view = host();
  const QpView one = view.devices[0].programs[0].qps[0];
  view.devices[0].programs[0].qps.assign(2000, one);
  const auto answered =
      ask({.command = C::ResQpGet, .numbers = {{A::DevIndex, 3}}, .is_dump = true, .view = view});
  EXPECT_GT(answered.datagrams.size(), 1U);
  std::size_t entries = 0;
  for (const auto& datagram : answered.datagrams) {
    EXPECT_LE(datagram.size(), kDatagramBytes);
  }
  for (const Message& message : answered.messages) {
    entries += inside(wire::netlink::parse_attributes(message.payload), A::ResQp).size();
  }
  EXPECT_EQ(entries, 2000U);
  EXPECT_EQ(answered.messages.back().header.type, wire::netlink::kTypeDone);
}

TEST(Nldev, ShowsThePortsCounters) {
  const auto answered = ask({
      C::StatGet, {{A::DevIndex, 3}, {A::PortIndex, 1}}
  });
  const auto entries = inside(only(answered), A::StatHwcounters);
  ASSERT_EQ(entries.size(), 2U);
  const auto second = wire::netlink::parse_attributes(entries[1].value);
  EXPECT_EQ(text(second, A::StatHwcounterEntryName), "out_of_sequence");
  EXPECT_EQ(number<std::uint64_t>(second, A::StatHwcounterEntryValue), 3U);
}

TEST(Nldev, NamesCharacterDevices) {
  std::vector<std::byte> datagram;
  MessageWriter writer{datagram};
  writer.begin({.type = type_of(Client::Nldev, std::to_underlying(C::GetChardev)),
                .flags = wire::netlink::kFlagRequest});
  writer.put_text(std::to_underlying(A::ChardevType), "uverbs");
  writer.put_number(std::to_underlying(A::DevIndex), std::uint32_t{3});
  writer.end();
  const auto datagrams = answer(datagram, host(), {}, nullptr);
  ASSERT_EQ(datagrams.size(), 1U);
  ByteSpan rest = datagrams[0];
  const auto fields = wire::netlink::parse_attributes(wire::netlink::take_message(rest)->payload);
  EXPECT_EQ(text(fields, A::ChardevName), "uverbs0");
  EXPECT_EQ(number<std::uint64_t>(fields, A::Chardev), 0xE7C0U);
}

TEST(Nldev, RefusesAsLinuxDoes) {
  EXPECT_EQ(error_of(ask({C::Get, {}}).messages.at(0)), -EINVAL) << "no device named";
  EXPECT_EQ(error_of(ask({C::Get, {{A::DevIndex, 9}}}).messages.at(0)), -EINVAL)
      << "no such device";
  EXPECT_EQ(error_of(ask({
                             C::PortGet, {{A::DevIndex, 3}, {A::PortIndex, 2}}
  })
                         .messages.at(0)),
            -EINVAL);
  EXPECT_EQ(error_of(ask({C::ResQpGetRaw, {{A::DevIndex, 3}}}).messages.at(0)), -EINVAL)
      << "no such command";
  EXPECT_EQ(error_of(ask({C::Set, {{A::DevIndex, 3}}}).messages.at(0)), -EOPNOTSUPP);
  EXPECT_EQ(error_of(ask({C::NewLink, {}}).messages.at(0)), -EINVAL);
}

TEST(NetlinkDispatch, RefusesClientsThatAreNotThere) {
  for (const unsigned client : {0U, 1U, 2U, 3U, 4U, 6U, 63U}) {
    std::vector<std::byte> datagram;
    MessageWriter writer{datagram};
    writer.begin({.type = static_cast<std::uint16_t>(client << 10 | 1),
                  .flags = wire::netlink::kFlagRequest});
    writer.end();
    const auto datagrams = answer(datagram, host(), {}, nullptr);
    if (client == 0) {  // 1 is NLMSG_NOOP
      EXPECT_TRUE(datagrams.empty());
      continue;
    }
    ASSERT_EQ(datagrams.size(), 1U) << client;
    ByteSpan rest = datagrams[0];
    EXPECT_EQ(error_of(*wire::netlink::take_message(rest)), -EINVAL);
  }
}

TEST(NetlinkDispatch, AnswersNoAnswersAndDropsWhatIsNoMessage) {
  std::vector<std::byte> datagram;
  MessageWriter writer{datagram};
  writer.begin({.type = type_of(Client::Nldev, 1), .flags = 0});
  writer.end();
  EXPECT_TRUE(answer(datagram, host(), {}, nullptr).empty());
  EXPECT_TRUE(answer(ByteSpan{datagram}.first(8), host(), {}, nullptr).empty());
}

TEST(NetlinkDispatch, AnswersEachMessageOfADatagram) {
  std::vector<std::byte> datagram;
  for (int i = 0; i < 3; ++i) {
    MessageWriter writer{datagram};
    writer.begin({.type = type_of(Client::Nldev, std::to_underlying(C::SysGet)),
                  .flags = wire::netlink::kFlagRequest});
    writer.end();
  }
  const auto datagrams = answer(datagram, host(), {}, nullptr);
  std::size_t messages = 0;
  for (const auto& bytes : datagrams) {
    ByteSpan rest = bytes;
    while (wire::netlink::take_message(rest)) {
      ++messages;
    }
  }
  EXPECT_EQ(messages, 3U);
}

TEST(NetlinkDispatch, AcknowledgesInADatagramOfItsOwnAndNamesTheAsker) {
  std::vector<std::byte> datagram;
  MessageWriter writer{datagram};
  writer.begin({.type = type_of(Client::Nldev, std::to_underlying(C::SysGet)),
                .flags = wire::netlink::kFlagRequest | wire::netlink::kFlagAck});
  writer.end();
  const auto datagrams = answer(datagram, host(), {.port = 4'711}, nullptr);
  ASSERT_EQ(datagrams.size(), 2U);
  for (const auto& bytes : datagrams) {
    ByteSpan rest = bytes;
    EXPECT_EQ(wire::netlink::take_message(rest)->header.port, 4'711U);
    EXPECT_TRUE(rest.empty());
  }
}

TEST(NetlinkDispatch, CapsErrorsWhereThatIsWanted) {
  std::vector<std::byte> datagram;
  MessageWriter writer{datagram};
  writer.begin({.type = type_of(Client::Nldev, std::to_underlying(C::Get)),
                .flags = wire::netlink::kFlagRequest});
  writer.put_text(1, "no number");
  writer.end();
  const auto whole = answer(datagram, host(), {}, nullptr);
  const auto capped = answer(datagram, host(), {.wants_capped_errors = true}, nullptr);
  EXPECT_EQ(whole.at(0).size(), wire::netlink::kHeaderBytes + 4 + datagram.size());
  EXPECT_EQ(capped.at(0).size(), wire::netlink::kHeaderBytes + 4 + wire::netlink::kHeaderBytes);
  ByteSpan rest = capped.at(0);
  EXPECT_EQ(wire::netlink::take_message(rest)->header.flags, wire::netlink::kFlagCapped);
}

TEST(Nldev, AProgramWithoutAnOpenContextHasNone) {
  HostView view = host();
  view.devices.front().programs.front().context = 0;
  const auto answered =
      ask({.command = C::ResCtxGet, .numbers = {{A::DevIndex, 3}}, .is_dump = true, .view = view});
  EXPECT_EQ(answered.messages.size(), 1U) << "the end alone";
}

TEST(NetlinkDispatch, KnowsWhatNeedsTheProgramsAnswers) {
  const auto datagram_of = [](C command) {
    std::vector<std::byte> datagram;
    MessageWriter writer{datagram};
    writer.begin({.type = type_of(Client::Nldev, std::to_underlying(command)),
                  .flags = wire::netlink::kFlagRequest});
    writer.end();
    return datagram;
  };
  EXPECT_TRUE(reads_resources(datagram_of(C::ResQpGet)));
  EXPECT_TRUE(reads_resources(datagram_of(C::ResGet)));
  EXPECT_FALSE(reads_resources(datagram_of(C::Get)));
  EXPECT_TRUE(reads_counters(datagram_of(C::StatGet)));
  EXPECT_FALSE(reads_counters(datagram_of(C::ResGet)));
}

}  // namespace
}  // namespace weft::host_view
