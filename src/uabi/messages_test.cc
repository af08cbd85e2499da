#include "uabi/messages.h"

#include <gtest/gtest.h>

#include "base/process_slot.h"
#include "base/random.h"

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

RdmaCmParameters parameters_of_connection() {
  return {.qpn = Qpn{0x4001},
          .qkey = QKey{0x0123'4567},
          .has_srq = true,
          .responder_resources = 1,
          .initiator_depth = 2,
          .flow_control = 1,
          .retry_count = 7,
          .rnr_retry_count = 6,
          .private_data = {std::vector<std::byte>(56, std::byte{9})}};
}

RdmaCmAddressVector address_vector() {
  return {
      .dlid = Lid{4},
      .sl = ServiceLevel{1},
      .source_path_bits = 1,
      .static_rate = 3,
      .port = 1,
      .is_global = true,
      .dgid = Gid{kDefaultGidPrefix, Guid{8}},
      .flow_label = 0xFFFFF,
      .sgid_index = 1,
      .hop_limit = 64,
      .traffic_class = 5
  };
}

RdmaCmPath path_of_route() {
  return {
      .flags = 0x31,
      .dgid = Gid{kDefaultGidPrefix, Guid{8}},
      .sgid = Gid{kDefaultGidPrefix, Guid{9}},
      .dlid = Lid{4},
      .slid = Lid{2},
      .service_id = 0x106'1D2F,
      .flow_label = 1,
      .hop_limit = 2,
      .traffic_class = 3,
      .is_reversible = true,
      .pkey = PKey{0xFFFF},
      .qos_class = 4,
      .sl = ServiceLevel{5},
      .mtu = 4,
      .rate = 16,
      .packet_life_time = 12
  };
}

RdmaCmQpAttributes qp_attributes() {
  return {.mask = 0x1FFFFF,
          .state = 2,
          .path_mtu = 4,
          .path_mig_state = 1,
          .qkey = QKey{5},
          .rq_psn = 6,
          .sq_psn = 7,
          .destination = Qpn{8},
          .access_flags = 9,
          .path = address_vector(),
          .alternate_path = {},
          .pkey_index = 10,
          .alternate_pkey_index = 11,
          .port = 1,
          .alternate_port = 2,
          .max_rd_atomic = 16,
          .max_dest_rd_atomic = 15,
          .min_rnr_timer = 12,
          .timeout = 18,
          .alternate_timeout = 17,
          .retry_count = 7,
          .rnr_retry = 6};
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
      ConnectRdmaCm{3, parameters_of_connection(), {0x1405, 1}},
      AcceptRdmaCm{4, 0xABCD, true, parameters_of_connection(), {0x1405, 1}},
      RejectRdmaCm{4, 28, {std::vector<std::byte>(148)}},
      DisconnectRdmaCm{3},
      InitRdmaCmQp{3, 2},
      SetRdmaCmOption{3, RdmaCmOption::AckTimeout, 18},
      SetRdmaCmPaths{3, {path_of_route(), path_of_route()}},
      NotifyRdmaCm{3, 4},
      JoinRdmaCmGroup{3, 0xABCE, true, address_of_listener()},
      LeaveRdmaCmGroup{1},
      MigrateRdmaCmId{1, 3},
      GetRdmaCmEvent{},
      CommunicationEstablished{Qpn{0x4001}},
      RdmaCmOpened{1},
      RdmaCmAnswer{98, 0, "port 7471 is in use"},
      RdmaCmIdState{"weft0", 1, PKey{0xFFFF}, {}, address_of_listener(), {}, {}, {path_of_route()}},
      RdmaCmQpAttributes{qp_attributes()},
      RdmaCmEvent{.type = RdmaCmEventType::Rejected,
                 .uid = 0xABCD,
                 .id = 3,
                 .status = -110,
                 .parameters = parameters_of_connection(),
                 .address_vector = address_vector(),
                 .ece = {0x1405, 1}},
      NoRdmaCmEvent{}
  };
  messages.insert(messages.end(), of_channels.begin(), of_channels.end());
}

void add_resolutions(std::vector<Message>& messages) {
  const std::vector<Message> of_resolutions{
      ResolveRdmaCmService{3, 0x1234, "echo"},
      QueryRdmaCmServices{3},
      WriteRdmaCmEvent{3, 0xABCD, RdmaCmEventType::User, -5, 0x1122'3344'5566'7788},
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
                       .current_state = 2,
                       .attributes = qp_attributes()},
      XrcTargetAnswer{{0, 2}, 7, 3, 1, "no such target", qp_attributes()},
      XrcTargetEvent{{0, 2}, 7, Qpn{0x8001}, 4},
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
      Query{.kind = QueryKind::Faults},
      StartCapture{.port = "s1:3"},
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
            .sl = 1,
            .port = 1,
            .pkey_index = 2,
            .path_mtu = 5,
            .min_rnr_timer = 12},
      ChangeNode{.change = "add host h9 link=s1:7"}
  };
  add_rdma_cm(messages);
  add_shared_objects(messages);
  messages.emplace_back(GroupJoined{});
  messages.emplace_back(InitialStateSent{});
  add_bad_keys(messages);
  add_resolutions(messages);
  return messages;
}

TEST(Messages, ComeBackAsTheyWere) {
  const std::vector<Message> messages = one_of_each();
  ASSERT_EQ(messages.size(), std::variant_size_v<Message>);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Message& message = messages[i];
    EXPECT_EQ(message.index(), i);
    const auto bytes = encode(message);
    const auto decoded = decode(bytes);
    ASSERT_TRUE(decoded) << message.index() << ": " << decoded.error().reason;
    EXPECT_EQ(encode(*decoded), bytes);
  }
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
      bytes[0] = static_cast<std::byte>(random.below(std::variant_size_v<Message>));
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
  EXPECT_EQ(std::get<UmadMad>(*decoded).header, header_of_mad());
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

TEST(Messages, OfRdmaCmRefuseWhatNoSenderMeans) {
  auto bind = encode(Message{
      BindRdmaCmId{3, address_of_listener()}
  });
  EXPECT_TRUE(decode(bind));
  bind[8] = std::byte{4};  // no family
  EXPECT_FALSE(decode(bind));
  auto option = encode(Message{
      SetRdmaCmOption{3, RdmaCmOption::AckTimeout, 18}
  });
  EXPECT_TRUE(decode(option));
  option[8] = std::byte{5};  // no option
  EXPECT_FALSE(decode(option));
  option[8] = std::byte{0};
  EXPECT_FALSE(decode(option));
  auto event = encode(Message{RdmaCmEvent{.status = -110}});
  const auto decoded = decode(event);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(std::get<RdmaCmEvent>(*decoded).status, -110);
  event[4] = static_cast<std::byte>(RdmaCmEventType::User);
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
  auto event = encode(Message{WriteRdmaCmEvent{.type = RdmaCmEventType::User}});
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
