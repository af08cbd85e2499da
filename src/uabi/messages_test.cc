#include "uabi/messages.h"

#include <gtest/gtest.h>

#include "base/process_slot.h"
#include "base/random.h"
#include "uabi/testing/omni_path_samples.h"

namespace weft::uabi {
namespace {

UmadPort port_of_device() {
  return {
      .number = 1,
      .state = 4,
      .physical_state = 5,
      .lmc = 1,
      .lid = Lid{2},
      .sm_lid = Lid{1},
      .sm_sl = ServiceLevel{3},
      .is_infiniband = true,
      .gigabits = 100,
      .capability_mask = 2,
      .gid = Gid{kDefaultGidPrefix, Guid{9}},
      .pkeys = {PKey{0xFFFF}, PKey{0x8001}}
  };
}

UmadHeader header_of_mad() {
  return {
      .agent = 3,
      .status = 110,
      .timeout_ms = 1'000,
      .retries = 3,
      .qpn = kQp1,
      .lid = Lid{4},
      .sl = ServiceLevel{1},
      .path_bits = 1,
      .pkey_index = 2,
      .has_grh = true,
      .hop_limit = 64,
      .traffic_class = 5,
      .flow_label = 0xFFFFF,
      .gid = Gid{kDefaultGidPrefix, Guid{8}}
  };
}

RdmaCmAddress address_of_listener() {
  RdmaCmAddress address{.family = RdmaCmFamily::Ip4, .port = 7'471};
  address.octets[0] = std::byte{127};
  address.octets[1] = std::byte{77};
  address.octets[3] = std::byte{1};
  return address;
}

verbs::ConnectionParameters parameters_of_connection() {
  return {
      .qpn = Qpn{0x4001},
      .qkey = QKey{0x0123'4567},
      .has_srq = true,
      .responder_resources = 1,
      .initiator_depth = 2,
      .flow_control = 1,
      .retry_count = 7,
      .rnr_retry_count = 6,
      .ece = {.vendor_id = 0x1405, .options = 1},
      .private_data = std::vector<std::byte>(56, std::byte{9}
        )
  };
}

verbs::AddressVector address_vector() {
  return {
      .dlid = Lid{4},
      .sl = ServiceLevel{1},
      .source_path_bits = 1,
      .static_rate = 3,
      .port = PortNumber{1},
      .is_global = true,
      .grh = {.dgid = Gid{kDefaultGidPrefix, Guid{8}},
                  .flow_label = 0xFFFFF,
                  .sgid_index = 1,
                  .hop_limit = 64,
                  .traffic_class = 5}
  };
}

verbs::Path path_of_route() {
  return {
      .sgid = Gid{kDefaultGidPrefix, Guid{9}},
      .dgid = Gid{kDefaultGidPrefix, Guid{8}},
      .slid = Lid{2},
      .dlid = Lid{4},
      .sl = ServiceLevel{5},
      .pkey = PKey{0xFFFF},
      .mtu = verbs::Mtu::Mtu2048,
      .rate = 16,
      .packet_life_time = 12,
      .traffic_class = 3,
      .hop_limit = 2,
      .flow_label = 1,
      .is_reversible = false
  };
}

/// Each member has a value of its own.
verbs::QpModification modification() {
  return {
      .mask = verbs::QpAttributeMask::from_bits(0x1F'FFFF),
      .attributes = {.state = verbs::QpState::Rtr,
                     .current_state = verbs::QpState::Init,
                     .path_mtu = verbs::Mtu::Mtu2048,
                     .migration = verbs::MigrationState::Rearm,
                     .qkey = QKey{5},
                     .rq_psn = Psn{0xAB'CDEF},
                     .sq_psn = Psn{7},
                     .dest_qpn = Qpn{8},
                     .access = verbs::AccessFlags::from_bits(9),
                     .capabilities = {.max_send_wr = 20,
                                      .max_recv_wr = 21,
                                      .max_send_sge = 22,
                                      .max_recv_sge = 23,
                                      .max_inline_data = 24},
                     .address = address_vector(),
                     .alternate_address = {.dlid = Lid{9}},
                     .pkey_index = 10,
                     .alternate_pkey_index = 11,
                     .enable_sqd_async_notify = true,
                     .sq_draining = true,
                     .max_rd_atomic = 16,
                     .max_dest_rd_atomic = 15,
                     .min_rnr_timer = 12,
                     .port = PortNumber{1},
                     .timeout = TimeoutExponent{18},
                     .retry_count = 7,
                     .rnr_retry = 6,
                     .alternate_port = PortNumber{2},
                     .alternate_timeout = TimeoutExponent{17}}
  };
}

void add_rdma_cm(std::vector<Message>& messages) {
  const std::vector<Message> of_channels{
      OpenRdmaCm{kVersion, "h1", "h2"},
      CreateRdmaCmId{0x106, 2, 0xABCD'EF01'2345},
      DestroyRdmaCmId{3},
      BindRdmaCmId{3, address_of_listener()},
      ResolveRdmaCmAddress{3, {}, address_of_listener(), 2'000},
      ResolveRdmaCmRoute{3, 2'000},
      QueryRdmaCmId{3},
      ListenRdmaCm{3, 128},
      ConnectRdmaCm{3, parameters_of_connection()},
      AcceptRdmaCm{4, 0xABCD, true, parameters_of_connection()},
      RejectRdmaCm{4, 28, {std::vector<std::byte>(148)}},
      DisconnectRdmaCm{3},
      InitRdmaCmQp{3, 2},
      SetRdmaCmOption{3, verbs::RdmaCmOption::AckTimeout, 18},
      SetRdmaCmPaths{3, {path_of_route(), path_of_route()}},
      NotifyRdmaCm{3, verbs::AsyncEventType::CommunicationEstablished},
      JoinRdmaCmGroup{3, 0xABCE, true, address_of_listener()},
      LeaveRdmaCmGroup{1},
      MigrateRdmaCmId{1, 3},
      GetRdmaCmEvent{},
      CommunicationEstablished{Qpn{0x4001}},
      RdmaCmOpened{1},
      RdmaCmAnswer{98, 0, "port 7471 is in use"},
      RdmaCmIdState{"weft0",
                 PortNumber{1},
                 PKey{0xFFFF},
                 {},
                 address_of_listener(),
                 {},
                 {},
                 {path_of_route()}},
      RdmaCmQpAttributes{modification()},
      RdmaCmEvent{.type = verbs::RdmaCmEventType::Rejected,
                 .uid = 0xABCD,
                 .id = 3,
                 .status = -110,
                 .parameters = parameters_of_connection(),
                 .address_vector = address_vector()},
      NoRdmaCmEvent{}
  };
  messages.insert(messages.end(), of_channels.begin(), of_channels.end());
}

void add_resolutions(std::vector<Message>& messages) {
  const std::vector<Message> of_resolutions{
      ResolveRdmaCmService{3, 0x1234, "echo"},
      QueryRdmaCmServices{3},
      WriteRdmaCmEvent{3, 0xABCD, verbs::RdmaCmEventType::User, -5, 0x1122'3344'5566'7788},
      RdmaCmServices{{{0x1234, Gid{kDefaultGidPrefix, Guid{8}}, PKey{0xFFFF}}}}
  };
  messages.insert(messages.end(), of_resolutions.begin(), of_resolutions.end());
}

void add_shared_objects(std::vector<Message>& messages) {
  const std::vector<Message> of_objects{
      XrcTargetRequest{.peer = {0, 2},
                       .domain = 7,
                       .serial = 3,
                       .verb = TargetVerb::Modify,
                       .target = Qpn{0x8001},
                       .modification = modification()},
      XrcTargetAnswer{{0, 2}, 7, 3, 1, "no such target", modification().attributes},
      XrcTargetEvent{{0, 2}, 7, Qpn{0x8001}, verbs::AsyncEventType::PathMigrated},
      ShareDevice{1, false},
      ImportDevice{2},
      DeviceImported{2, 5, {0, 2}, 1, true, "nobody has it open"},
      LeaveDevice{5},
      DeviceGone{{0, 2}, 5},
      ObjectRequest{{0, 2}, 5, 77, 3, ImportVerb::Region, 4},
      ObjectAnswer{{0, 2}, 5, 3, 0, "", 1, 0x1234, 7, 0x10000, 4'096, true, 1, 2, 8'192}
  };
  messages.insert(messages.end(), of_objects.begin(), of_objects.end());
}

/// So many of each kind.
[[nodiscard]] ObjectsHeld held_objects(std::size_t count) {
  ObjectsHeld held;
  held.request = 3;
  held.hca = 1;
  held.is_last = true;
  held.pds.assign(count, {.number = 1, .uses = 4});
  held.cqs.assign(count, {.number = 2, .capacity = 64, .uses = 2});
  held.mrs.assign(count,
                  {.number = 3, .lkey = 0x300, .rkey = 0x301, .length = 1ULL << 40, .pd = 1});
  held.srqs.assign(count, {.number = 4, .is_xrc = true, .pd = 1, .cq = 2});
  held.qps.assign(count, {.number = Qpn{0x4001},
                          .type = 2,
                          .state = 3,
                          .port = 1,
                          .migration = 1,
                          .dest = Qpn{0x8001},
                          .rq_psn = 5,
                          .sq_psn = 6,
                          .pd = 1});
  return held;
}

void add_bad_keys(std::vector<Message>& messages) {
  messages.emplace_back(BadKeys{
      .port = 4,
      .is_qkey = true,
      .count = 3,
      .source = Lid{1},
      .destination = Lid{2},
      .sl = 15,
      .source_qp = Qpn{0x4001},
      .destination_qp = Qpn{0x8001},
      .source_gid = Gid{1, Guid{2}},
      .key = 0x8000'0001
  });
}

void add_namespaces(std::vector<Message>& messages) {
  messages.emplace_back(AskNamespaces{kVersion, "h1"});
  messages.emplace_back(KeepFabricNamespaces{kVersion, "h2"});
  messages.emplace_back(KeepHostNamespaces{kVersion, "h3"});
  messages.emplace_back(FabricWanted{});
  messages.emplace_back(HostWanted{
      {{"127.77.0.1", "10.0.0.1/16"}, 7, "/run/weft/default/hosts", "/run/weft 12"}
  });
  messages.emplace_back(HostKept{});
  messages.emplace_back(CarryAddresses{
      kVersion, "h1", 1, 0xFFFF, {"10.77.0.1/16", "fe80::202:c903:1:203/64"}
  });
  messages.emplace_back(AskNeighbor{"10.77.0.2", 2'000});
  messages.emplace_back(TellNeighbor{
      "10.77.0.2", Gid{0xFE80'0000'0000'0000, Guid{2}}
  });
  messages.emplace_back(HoldGroups{
      {Gid{0xFF12'401B'FFFF'0000, Guid{0x0F010203}}, Gid{0xFF12'601B'FFFF'0000, Guid{0xFB}}}
  });
  messages.emplace_back(PublishPaths{kVersion, "h1"});
  messages.emplace_back(AskPublishedPaths{kVersion, "h2"});
  messages.emplace_back(PublishedPaths{});
}

std::vector<Message> one_of_each() {
  std::vector<Message> messages{
      Hello{.host = "h1"},
      OpenLane{{7, 3}},
      JoinGroup{4, Lid{0xC001}, Gid{0xFF0E'0000'0000'0000, Guid{5}}},
      LeaveGroup{4, Lid{0xC001}, Gid{0xFF0E'0000'0000'0000, Guid{5}}},
      TapReady{9},
      ReportPeer{{1, 3}, RecordFault::ForgedSource, 4'096},
      Welcome{.self = {1, 2}, .time_scale = TimeScale{100'000}},
      Refused{"no host h9: the fabric has h1 and h2"},
      Lane{{1, 5}, 1},
      NoSuchProcess{{1, 5}},
      LaneClosed{{1, 5}},
      TablesChanged{},
      GroupMembers{Lid{0xC000}, {{0, 1}, {1, 1}}},
      OpenTap{1, 2},
      CloseTap{1},
      Query{.kind = QueryKind::Qps},
      StartCapture{.port = "s1:3", .tunnels = true},
      AddFault{.rule = "drop p=0.01"},
      ClearFaults{.number = 7},
      Down{},
      Text{true, "{}"},
      CaptureLive{6},
      CaptureSource{{1, 1}},
      ListUmadDevices{kVersion, "s1"},
      DescribeUmadDevice{kVersion, "h1", "weft0"},
      FindIsSm{kVersion, "h1", "weft0", 1},
      OpenUmad{kVersion, "h1", "weft0", 1},
      RegisterUmadAgent{0x03, 2, 1, false, 0x1405, {1U << 2, 1U << 1}},
      UnregisterUmadAgent{31},
      UmadDevices{{"weft0", "weft1"}},
      UmadDevice{false, Guid{1}, Guid{2}, {port_of_device()}},
      IsSm{"issm0"},
      UmadOpened{},
      UmadAnswer{13, 0, "the class is another's"},
      UmadMad{header_of_mad(), std::vector<std::byte>(256, std::byte{3})},
      LongUmadMad{header_of_mad(), 100'000},
      ChangePort{.port = "s1:3", .change = "width=1x"},
      OpenXrcDomain{1, 0, true, false},
      XrcDomainOpened{1, 0, true, "no domain of that file is open"},
      CloseXrcDomain{7},
      XrcRelay{.peer = {0, 2},
            .domain = 7,
            .action = XrcMessage::RequestProxy,
            .serial = 3,
            .target = Qpn{0x4001},
            .proxy = {},
            .source = Qpn{0x8001},
            .slid = Lid{5},
            .sl = ServiceLevel{1},
            .port = PortNumber{1},
            .pkey_index = 2,
            .path_mtu = verbs::Mtu::Mtu4096,
            .min_rnr_timer = 12},
      ChangeNode{.change = "add host h9 link=s1:7"}
  };
  add_rdma_cm(messages);
  add_shared_objects(messages);
  messages.emplace_back(GroupJoined{});
  messages.emplace_back(InitialStateSent{});
  add_bad_keys(messages);
  add_resolutions(messages);
  messages.emplace_back(ListObjects{.request = 3});
  messages.emplace_back(held_objects(2));
  add_namespaces(messages);
  testing::add_omni_path(messages);
  return messages;
}

TEST(Messages, ComeBackAsTheyWere) {
  const std::vector<Message> messages = one_of_each();
  ASSERT_EQ(messages.size(), Message::kCount);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Message& message = messages[i];
    EXPECT_EQ(message.index(), i);
    const auto bytes = encode(message);
    const auto decoded = decode(bytes);
    ASSERT_TRUE(decoded) << message.index() << ": " << decoded.error().reason;
    EXPECT_EQ(encode(*decoded), bytes);
  }
}

TEST(Messages, HoldAsManyObjectsAsTheyMay) {
  const auto bytes = encode(held_objects(kMaxHeldObjects));
  EXPECT_LE(bytes.size(), kMaxMessageBytes);
  EXPECT_TRUE(decode(bytes));
}

TEST(Messages, RefuseEveryTruncationAndEveryTrailingByte) {
  for (const Message& message : one_of_each()) {
    auto bytes = encode(message);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(decode(ByteSpan{bytes}.first(size))) << message.index() << " at " << size;
    }
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(decode(bytes)) << message.index();
  }
}

TEST(Messages, NeverCrashOnForeignBytes) {
  Random random{1};
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::byte> bytes(random.below(64));
    for (std::byte& octet : bytes) {
      octet = static_cast<std::byte>(random());
    }
    if (bytes.size() >= 4) {
      bytes[0] = static_cast<std::byte>(random.below(Message::kCount));
      bytes[1] = bytes[2] = bytes[3] = std::byte{0};
    }
    static_cast<void>(decode(bytes));
  }
}

TEST(Messages, RefuseWhatNoSenderMeans) {
  auto lane = encode(Message{
      Lane{{1, kSlotCount - 1}, 1}
  });
  EXPECT_TRUE(decode(lane));
  lane[9] = std::byte{0xFF};  // slot beyond 10 bits
  EXPECT_FALSE(decode(lane));
  auto query = encode(Message{Query{}});
  query.back() = std::byte{7};
  EXPECT_FALSE(decode(query));
  auto report = encode(Message{
      ReportPeer{{1, 3}, RecordFault::NoSuchQp, 1}
  });
  EXPECT_TRUE(decode(report));
  report[12] = static_cast<std::byte>(kRecordFaultCount + 1);
  EXPECT_FALSE(decode(report));
  report[12] = std::byte{0};
  EXPECT_FALSE(decode(report));
  auto welcome = encode(Message{
      Welcome{.self = {1, 2}, .time_scale = {}}
  });
  EXPECT_TRUE(decode(welcome));
  welcome[welcome.size() - 3] = welcome[welcome.size() - 2] = std::byte{0};  // a millionth of time
  EXPECT_FALSE(decode(welcome));
  auto mad = encode(Message{
      UmadMad{header_of_mad(), std::vector<std::byte>(kMaxMadBytesInMessage)}
  });
  ASSERT_TRUE(decode(mad));
  const auto decoded = decode(mad);
  EXPECT_EQ(decoded->get<UmadMad>().header, header_of_mad());
  mad.push_back(std::byte{});
  mad[mad.size() - kMaxMadBytesInMessage - 5] = std::byte{1};  // one byte more than there may be
  EXPECT_FALSE(decode(mad));
  auto relay = encode(Message{XrcRelay{}});
  EXPECT_TRUE(decode(relay));
  relay[24] = std::byte{1};  // a QPN of 25 bits
  EXPECT_FALSE(decode(relay));
  relay[24] = std::byte{0};
  relay[16] = std::byte{9};  // no word
  EXPECT_FALSE(decode(relay));
  auto text = encode(Message{
      Text{true, "x"}
  });
  text[4] = std::byte{2};  // no bool
  EXPECT_FALSE(decode(text));
}

TEST(Messages, OfSharedObjectsRefuseWhatNoSenderMeans) {
  auto target = encode(Message{XrcTargetRequest{}});
  EXPECT_TRUE(decode(target));
  target[20] = std::byte{5};  // no verb
  EXPECT_FALSE(decode(target));
  target[20] = std::byte{0};
  EXPECT_FALSE(decode(target));
  auto object = encode(Message{ObjectRequest{}});
  EXPECT_TRUE(decode(object));
  object[28] = std::byte{7};  // no verb
  EXPECT_FALSE(decode(object));
}

TEST(Messages, KeepQpAttributesAsTheyWere) {
  XrcTargetRequest request;
  request.modification = modification();
  const auto decoded = decode(encode(Message{request}));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->get<XrcTargetRequest>().modification, modification());
}

TEST(Messages, KeepPathsAndConnectionParametersAsTheyWere) {
  const auto paths = decode(encode(Message{
      SetRdmaCmPaths{3, {path_of_route(), {}}}
  }));
  ASSERT_TRUE(paths);
  EXPECT_EQ(paths->get<SetRdmaCmPaths>().paths, (std::vector{path_of_route(), verbs::Path{}}));
  const auto event = decode(encode(Message{
      RdmaCmEvent{.parameters = parameters_of_connection(), .address_vector = address_vector()}
  }));
  ASSERT_TRUE(event);
  EXPECT_EQ(event->get<RdmaCmEvent>().parameters, parameters_of_connection());
  EXPECT_EQ(event->get<RdmaCmEvent>().address_vector, address_vector());
}

TEST(Messages, OfQpsRefuseValuesThatDoNotExist) {
  constexpr std::size_t kModification = 25;  // after type, peer, domain, serial, verb and target
  constexpr std::size_t kState = kModification + 4;  // after the mask
  struct Bad {
    std::size_t at;
    std::uint8_t octet;
    const char* what;
  };
  const auto good = encode(Message{XrcTargetRequest{}});
  ASSERT_TRUE(decode(good));
  for (const Bad& bad : {
           Bad{kState,          7,   "state"            },
           Bad{kState + 1,      200, "current state"    },
           Bad{kState + 2,      0,   "no MTU"           },
           Bad{kState + 2,      6,   "too large an MTU" },
           Bad{kState + 3,      3,   "migration state"  },
           Bad{kState + 11,     1,   "RQ PSN of 25 bits"},
           Bad{kState + 15,     1,   "SQ PSN of 25 bits"},
           Bad{kState + 19,     1,   "QPN of 25 bits"   },
           Bad{good.size() - 5, 32,  "timeout"          },
           Bad{good.size() - 1, 255, "alternate timeout"}
  }) {
    auto wild = good;
    wild[bad.at] = std::byte{bad.octet};
    EXPECT_FALSE(decode(wild)) << bad.what;
  }
}

TEST(Messages, OfPathsRefuseValuesThatDoNotExist) {
  const auto good = encode(Message{
      SetRdmaCmPaths{3, {verbs::Path{}}}
  });
  ASSERT_TRUE(decode(good));
  const std::size_t end = good.size();
  struct Bad {
    std::size_t at;
    std::uint8_t octet;
    const char* what;
  };
  for (const Bad& bad : {
           Bad{end - 1,  64,   "packet lifetime"      },
           Bad{end - 2,  64,   "rate"                 },
           Bad{end - 3,  0,    "no MTU"               },
           Bad{end - 3,  6,    "too large an MTU"     },
           Bad{end - 4,  16,   "SL"                   },
           Bad{end - 7,  2,    "no bool"              },
           Bad{end - 11, 0x10, "flow label of 21 bits"},
           Bad{end - 15, 1,    "SLID of 17 bits"      },
           Bad{end - 19, 1,    "DLID of 17 bits"      }
  }) {
    auto wild = good;
    wild[bad.at] = std::byte{bad.octet};
    EXPECT_FALSE(decode(wild)) << bad.what;
  }
}

TEST(Messages, OfRdmaCmRefuseWhatNoSenderMeans) {
  auto bind = encode(Message{
      BindRdmaCmId{3, address_of_listener()}
  });
  EXPECT_TRUE(decode(bind));
  bind[8] = std::byte{4};  // no family
  EXPECT_FALSE(decode(bind));
  auto option = encode(Message{
      SetRdmaCmOption{3, verbs::RdmaCmOption::AckTimeout, 18}
  });
  EXPECT_TRUE(decode(option));
  option[8] = std::byte{5};  // no option
  EXPECT_FALSE(decode(option));
  option[8] = std::byte{0};
  EXPECT_FALSE(decode(option));
  auto notify = encode(Message{NotifyRdmaCm{}});
  EXPECT_TRUE(decode(notify));
  notify.back() = std::byte{19};  // no event
  EXPECT_FALSE(decode(notify));
  auto event = encode(Message{RdmaCmEvent{.status = -110}});
  const auto decoded = decode(event);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->get<RdmaCmEvent>().status, -110);
  event[4] = static_cast<std::byte>(verbs::RdmaCmEventType::User);
  EXPECT_TRUE(decode(event));
  event[4] = std::byte{19};  // no type of event
  EXPECT_FALSE(decode(event));
  auto reject = encode(Message{
      RejectRdmaCm{4, 28, {std::vector<std::byte>(kMaxRdmaCmPrivateData)}}
  });
  EXPECT_TRUE(decode(reject));
  reject.push_back(std::byte{});
  reject[9] = std::byte{0};  // 256, one octet more than there may be
  reject[10] = std::byte{1};
  EXPECT_FALSE(decode(reject));
  auto paths = encode(Message{
      SetRdmaCmPaths{3, std::vector(kMaxRdmaCmPaths, path_of_route())}
  });
  EXPECT_TRUE(decode(paths));
  const std::size_t path_bytes = (paths.size() - 12) / kMaxRdmaCmPaths;
  paths.insert(paths.end(), paths.begin() + 12, paths.begin() + 12 + std::ptrdiff_t(path_bytes));
  paths[8] = std::byte{kMaxRdmaCmPaths + 1};
  EXPECT_FALSE(decode(paths));
}

TEST(Messages, OfResolutionsRefuseWhatNoSenderMeans) {
  auto event = encode(Message{WriteRdmaCmEvent{.type = verbs::RdmaCmEventType::User}});
  EXPECT_TRUE(decode(event));
  event[16] = std::byte{19};  // no type of event
  EXPECT_FALSE(decode(event));
  auto services = encode(Message{RdmaCmServices{std::vector<RdmaCmService>(kMaxRdmaCmServices)}});
  EXPECT_TRUE(decode(services));
  const std::size_t bytes = (services.size() - 8) / kMaxRdmaCmServices;
  services.insert(services.end(), bytes, std::byte{});
  services[4] = static_cast<std::byte>(kMaxRdmaCmServices + 1);
  services[5] = static_cast<std::byte>((kMaxRdmaCmServices + 1) >> 8);
  EXPECT_FALSE(decode(services));
}

}  // namespace
}  // namespace weft::uabi
