#include "uabi/messages.h"

#include <algorithm>
#include <array>
#include <concepts>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/assert.h"
#include "base/process_slot.h"
#include "uabi/rdma_cm_layout.h"
#include "uabi/verbs_layout.h"

namespace weft::uabi {
namespace {

// Each message is described once, by the order of its members in `describe`; Writer and Reader are
// the two archives.
void describe(Hello& m, auto& archive) { archive(m.version, m.host); }
void describe(OpenLane& m, auto& archive) { archive(m.peer); }
void describe(JoinGroup& m, auto& archive) { archive(m.port, m.mlid, m.mgid); }
void describe(LeaveGroup& m, auto& archive) { archive(m.port, m.mlid, m.mgid); }
void describe(TapReady& m, auto& archive) { archive(m.capture); }
void describe(ReportPeer& m, auto& archive) { archive(m.peer, m.what, m.count); }
void describe(BadKeys& m, auto& archive) {
  archive(m.port, m.is_qkey, m.count, m.source, m.destination, m.sl, m.source_qp, m.destination_qp,
          m.source_gid, m.key);
}
void describe(Welcome& m, auto& archive) { archive(m.version, m.self, m.time_scale); }
void describe(InitialStateSent&, auto&) {}
void describe(Refused& m, auto& archive) { archive(m.reason); }
void describe(Lane& m, auto& archive) { archive(m.peer, m.side, m.self_pid, m.peer_pid); }
void describe(NoSuchProcess& m, auto& archive) { archive(m.peer); }
void describe(LaneClosed& m, auto& archive) { archive(m.peer); }
void describe(TablesChanged&, auto&) {}
void describe(GroupMembers& m, auto& archive) { archive(m.mlid, m.members); }
void describe(GroupJoined&, auto&) {}
void describe(OpenTap& m, auto& archive) { archive(m.capture, m.port); }
void describe(CloseTap& m, auto& archive) { archive(m.capture); }
void describe(Query& m, auto& archive) { archive(m.version, m.kind); }
void describe(StartCapture& m, auto& archive) { archive(m.version, m.port, m.tunnels); }
void describe(AddFault& m, auto& archive) { archive(m.version, m.rule); }
void describe(ClearFaults& m, auto& archive) { archive(m.version, m.number); }
void describe(ChangePort& m, auto& archive) { archive(m.version, m.port, m.change); }
void describe(ChangeNode& m, auto& archive) { archive(m.version, m.change); }
void describe(Down& m, auto& archive) { archive(m.version); }
void describe(AskNamespaces& m, auto& archive) { archive(m.version, m.host); }
void describe(KeepFabricNamespaces& m, auto& archive) { archive(m.version, m.host); }
void describe(KeepHostNamespaces& m, auto& archive) { archive(m.version, m.host); }
void describe(HostPlan& m, auto& archive) {
  archive(m.addresses, m.hub_port, m.hosts_file, m.fabric_id);
}
void describe(CarryAddresses& m, auto& archive) {
  archive(m.version, m.host, m.port_of_host, m.pkey, m.addresses);
}
void describe(PublishPaths& m, auto& archive) { archive(m.version, m.host); }
void describe(AskPublishedPaths& m, auto& archive) { archive(m.version, m.host); }
void describe(PublishedPaths&, auto&) {}
void describe(AskOmniPathPorts& m, auto& archive) { archive(m.version, m.host); }
void describe(AttachOmniPath& m, auto& archive) {
  archive(m.version, m.host, m.hca, m.port, m.takes_ethernet, m.takes_answers, m.watches_ports,
          m.mad_methods[0], m.mad_methods[1]);
}
void describe(JoinOmniPathGroup& m, auto& archive) { archive(m.mlid); }
void describe(LeaveOmniPathGroup& m, auto& archive) { archive(m.mlid); }
void describe(SetOmniPathCapabilities& m, auto& archive) { archive(m.mask); }
void describe(OmniPathPortInfo& m, auto& archive) {
  archive(m.host, m.hca, m.port, m.lid, m.is_active, m.capabilities, m.capability_changes);
}
void describe(OmniPathPorts& m, auto& archive) { archive(m.is_last, m.ports); }
void describe(OmniPathAttached&, auto&) {}
void describe(OmniPathPortState& m, auto& archive) { archive(m.lid, m.is_active, m.pkeys); }
void describe(OmniPathGroupJoined& m, auto& archive) { archive(m.mlid, m.reason); }
void describe(OmniPathPortsChanged&, auto&) {}
void describe(OmniPathOctets& m, auto& archive) { archive(m.octets); }
void describe(OmniPathPackets& m, auto& archive) { archive(m.lost, m.packets); }
void describe(AskNeighbor& m, auto& archive) { archive(m.neighbor, m.within_ms); }
void describe(TellNeighbor& m, auto& archive) { archive(m.neighbor, m.gid); }
void describe(HoldGroups& m, auto& archive) { archive(m.mgids); }
void describe(FabricWanted&, auto&) {}
void describe(HostWanted& m, auto& archive) { archive(m.plan); }
void describe(HostKept&, auto&) {}
void describe(Text& m, auto& archive) { archive(m.is_last, m.text); }
void describe(CaptureLive& m, auto& archive) { archive(m.port); }
void describe(CaptureSource& m, auto& archive) { archive(m.process); }
void describe(ListUmadDevices& m, auto& archive) { archive(m.version, m.node); }
void describe(DescribeUmadDevice& m, auto& archive) { archive(m.version, m.node, m.device); }
void describe(FindIsSm& m, auto& archive) { archive(m.version, m.node, m.device, m.port); }
void describe(OpenUmad& m, auto& archive) { archive(m.version, m.node, m.device, m.port); }
void describe(RegisterUmadAgent& m, auto& archive) {
  archive(m.mgmt_class, m.class_version, m.rmpp_version, m.does_rmpp, m.oui, m.methods[0],
          m.methods[1]);
}
void describe(UnregisterUmadAgent& m, auto& archive) { archive(m.agent); }
void describe(UmadDevices& m, auto& archive) { archive(m.names); }
void describe(UmadPort& m, auto& archive) {
  archive(m.number, m.state, m.physical_state, m.lmc, m.lid, m.sm_lid, m.sm_sl, m.is_infiniband,
          m.gigabits, m.capability_mask, m.pkey_violations, m.qkey_violations, m.subnet_timeout,
          m.init_type_reply, m.gid, m.pkeys);
}
void describe(UmadDevice& m, auto& archive) {
  archive(m.is_switch, m.node_guid, m.system_image_guid, m.ports);
}
void describe(IsSm& m, auto& archive) { archive(m.path); }
void describe(UmadOpened&, auto&) {}
void describe(UmadAnswer& m, auto& archive) { archive(m.error, m.agent, m.reason); }
void describe(UmadHeader& m, auto& archive) {
  archive(m.agent, m.status, m.timeout_ms, m.retries, m.qpn, m.lid, m.sl, m.path_bits, m.pkey_index,
          m.has_grh, m.hop_limit, m.traffic_class, m.flow_label, m.gid);
}
void describe(UmadMad& m, auto& archive) { archive(m.header, m.mad); }
void describe(LongUmadMad& m, auto& archive) { archive(m.header, m.length); }
void describe(OpenXrcDomain& m, auto& archive) {
  archive(m.request, m.hca, m.creates, m.is_exclusive);
}
void describe(XrcDomainOpened& m, auto& archive) {
  archive(m.request, m.domain, m.may_retry, m.reason);
}
void describe(CloseXrcDomain& m, auto& archive) { archive(m.domain); }
void describe(XrcRelay& m, auto& archive) {
  archive(m.peer, m.domain, m.action, m.serial, m.target, m.proxy, m.is_for_reads, m.source, m.slid,
          m.sl, m.port, m.pkey_index, m.path_mtu, m.min_rnr_timer);
}

void describe(XrcTargetRequest& m, auto& archive) {
  archive(m.peer, m.domain, m.serial, m.verb, m.target, m.modification);
}
void describe(XrcTargetAnswer& m, auto& archive) {
  archive(m.peer, m.domain, m.serial, m.error, m.reason, m.attributes);
}
void describe(XrcTargetEvent& m, auto& archive) { archive(m.peer, m.domain, m.target, m.event); }
void describe(ShareDevice& m, auto& archive) { archive(m.hca, m.is_over); }
void describe(ImportDevice& m, auto& archive) { archive(m.request); }
void describe(DeviceImported& m, auto& archive) {
  archive(m.request, m.device, m.owner, m.hca, m.may_retry, m.reason);
}
void describe(LeaveDevice& m, auto& archive) { archive(m.device); }
void describe(DeviceGone& m, auto& archive) { archive(m.peer, m.device); }
void describe(ObjectRequest& m, auto& archive) {
  archive(m.peer, m.device, m.inode, m.serial, m.verb, m.handle);
}
void describe(ObjectAnswer& m, auto& archive) {
  archive(m.peer, m.device, m.serial, m.error, m.reason, m.pd, m.key, m.access, m.iova, m.length,
          m.is_shared, m.file_device, m.file_inode, m.file_offset);
}

void describe(HeldPd& m, auto& archive) { archive(m.number, m.uses); }
void describe(HeldCq& m, auto& archive) { archive(m.number, m.capacity, m.uses); }
void describe(HeldMr& m, auto& archive) { archive(m.number, m.lkey, m.rkey, m.length, m.pd); }
void describe(HeldSrq& m, auto& archive) { archive(m.number, m.is_xrc, m.pd, m.cq); }
void describe(HeldQp& m, auto& archive) {
  archive(m.number, m.type, m.state, m.port, m.migration, m.dest, m.rq_psn, m.sq_psn, m.pd,
          m.placement);
}
void describe(ListObjects& m, auto& archive) { archive(m.request); }
void describe(ObjectsHeld& m, auto& archive) {
  archive(m.request, m.hca, m.is_last, m.pds, m.cqs, m.mrs, m.srqs, m.qps);
}

template <class T>
concept Number = std::integral<T> || std::is_enum_v<T>;

/// A structure nested in messages, which has a `describe` as well.
template <class T>
concept Part =
    std::same_as<T, UmadHeader> || std::same_as<T, UmadPort> || std::same_as<T, HeldPd> ||
    std::same_as<T, HeldCq> || std::same_as<T, HeldMr> || std::same_as<T, HeldSrq> ||
    std::same_as<T, HeldQp> || std::same_as<T, HostPlan> || std::same_as<T, OmniPathPortInfo> ||
    std::same_as<T, OmniPathOctets> || kIsRdmaCmPart<T>;

/// The same for structures of src/verbs.
template <class T>
concept Noun = std::same_as<T, verbs::Ece> || std::same_as<T, verbs::ConnectionParameters> ||
               std::same_as<T, verbs::GlobalRoute> || std::same_as<T, verbs::AddressVector> ||
               std::same_as<T, verbs::Path> || std::same_as<T, verbs::QpCapabilities> ||
               std::same_as<T, verbs::QpAttributes> || std::same_as<T, verbs::QpModification>;

/// A noun of which not every value that it can hold is one that may be sent.
template <class T>
concept Bounded = requires(const T& noun) { is_in_range(noun); };

/// Maximum number of list elements, by element type.
template <class T>
inline constexpr std::size_t kMost = 0;
template <>
inline constexpr std::size_t kMost<ProcessAddress> = kMaxGroupMembers;
template <>
inline constexpr std::size_t kMost<std::string> = std::max(kMaxUmadDevices, kMaxHostAddresses);
template <>
inline constexpr std::size_t kMost<UmadPort> = kMaxUmadPorts;
template <>
inline constexpr std::size_t kMost<Gid> = kMaxHeldGroups;
template <>
inline constexpr std::size_t kMost<PKey> = 128;  // per port
template <>
inline constexpr std::size_t kMost<verbs::Path> = kMaxRdmaCmPaths;
template <>
inline constexpr std::size_t kMost<RdmaCmService> = kMaxRdmaCmServices;
template <>
inline constexpr std::size_t kMost<OmniPathPortInfo> = kMaxOmniPathPorts;
template <>
inline constexpr std::size_t kMost<OmniPathOctets> = kMaxOmniPathPackets;
template <>
inline constexpr std::size_t kMost<HeldPd> = kMaxHeldObjects;
template <>
inline constexpr std::size_t kMost<HeldCq> = kMaxHeldObjects;
template <>
inline constexpr std::size_t kMost<HeldMr> = kMaxHeldObjects;
template <>
inline constexpr std::size_t kMost<HeldSrq> = kMaxHeldObjects;
template <>
inline constexpr std::size_t kMost<HeldQp> = kMaxHeldObjects;
template <>
inline constexpr std::size_t kMost<std::byte> = kMaxMadBytesInMessage;

class Writer {
 public:
  explicit Writer(std::vector<std::byte>& out) : out_(out) {}

  void operator()(auto&... members) { (put(members), ...); }

 private:
  void put(const Number auto& value) {
    const ByteSpan bytes = bytes_of(value);
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  void put(Lid lid) { put(lid.value()); }
  void put(Qpn qpn) { put(qpn.value()); }
  void put(TimeScale scale) { put(scale.millionths()); }
  void put(const ProcessAddress& address) {
    put(address.node);
    put(address.slot);
  }
  void put(const std::string& text) {
    WEFT_ASSERT(text.size() <= kMaxTextBytes, "who makes a message keeps to its limits");
    put(static_cast<std::uint32_t>(text.size()));
    const ByteSpan bytes = std::as_bytes(std::span{text});
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  template <class Tag, class Value>
  void put(Ordered<Tag, Value> number) {
    put(number.value());
  }
  void put(PKey pkey) { put(pkey.value()); }
  void put(Psn psn) { put(psn.value()); }
  void put(TimeoutExponent exponent) { put(exponent.value()); }
  template <class Flag>
  void put(Flags<Flag> flags) {
    put(flags.bits());
  }
  void put(QKey qkey) { put(qkey.value()); }
  void put(const Gid& gid) { put(gid.octets()); }
  void put(const std::array<std::byte, 16>& octets) {
    out_.insert(out_.end(), octets.begin(), octets.end());
  }
  void put(const RdmaCmPrivateData& data) {
    WEFT_ASSERT(data.octets.size() <= kMaxRdmaCmPrivateData,
                "who makes a message keeps to its limits");
    put(data.octets);
  }
  void put(const Part auto& part) {
    auto copy = part;
    describe(copy, *this);
  }
  template <Noun T>
  void put(const T& noun) {
    if constexpr (Bounded<T>) {
      WEFT_ASSERT(is_in_range(noun), "who makes a message keeps to its limits");
    }
    auto copy = noun;
    describe(copy, *this);
  }
  template <class T>
  void put(const std::vector<T>& list) {
    WEFT_ASSERT(list.size() <= kMost<T>, "who makes a message keeps to its limits");
    put(static_cast<std::uint32_t>(list.size()));
    if constexpr (std::is_same_v<T, std::byte>) {
      out_.insert(out_.end(), list.begin(), list.end());
    } else {
      for (const T& each : list) {
        put(each);
      }
    }
  }

  std::vector<std::byte>& out_;
};

class Reader {
 public:
  explicit Reader(ByteSpan in) : in_(in) {}

  void operator()(auto&... members) { (get(members), ...); }
  [[nodiscard]] bool is_whole() const { return !failed_ && in_.empty(); }

 private:
  void get(Number auto& value) {
    std::remove_reference_t<decltype(value)> read{};
    if (in_.size() < sizeof read) {
      failed_ = true;
      return;
    }
    std::memcpy(&read, in_.data(), sizeof read);
    in_ = in_.subspan(sizeof read);
    value = read;
  }
  void get(bool& value) {
    std::uint8_t octet{};
    get(octet);
    failed_ = failed_ || octet > 1;
    value = octet == 1;
  }
  void get(QueryKind& value) { get_one_of(value, QueryKind::Status, QueryKind::Qps); }
  void get(RecordFault& value) {
    get_one_of(value, RecordFault::CorruptRing, RecordFault::NoSuchQp);
  }
  void get(XrcMessage& value) { get_one_of(value, XrcMessage::RequestProxy, XrcMessage::PeerGone); }
  void get(TargetVerb& value) { get_one_of(value, TargetVerb::Open, TargetVerb::Query); }
  void get(ImportVerb& value) { get_one_of(value, ImportVerb::Pd, ImportVerb::DeregisterRegion); }
  void get(RdmaCmFamily& value) { get_one_of(value, RdmaCmFamily::None, RdmaCmFamily::Ib); }
  void get(verbs::QpState& value) { get_by(verbs::qp_state_of, value); }
  void get(verbs::MigrationState& value) { get_by(verbs::migration_state_of, value); }
  void get(verbs::Mtu& value) { get_by(verbs::mtu_of, value); }
  void get(verbs::AsyncEventType& value) { get_by(verbs::async_event_of, value); }
  void get(verbs::RdmaCmOption& value) { get_by(verbs::rdma_cm_option_of, value); }
  void get(verbs::RdmaCmEventType& value) { get_by(verbs::rdma_cm_event_of, value); }
  void get(Psn& psn) {
    std::uint32_t value{};
    get(value);
    failed_ = failed_ || value > Psn::kMask;
    psn = Psn{value};
  }
  void get(TimeoutExponent& exponent) {
    std::uint8_t value{};
    get(value);
    failed_ = failed_ || value > TimeoutExponent::kMax;
    exponent = failed_ ? TimeoutExponent{} : TimeoutExponent{value};
  }
  template <class Flag>
  void get(Flags<Flag>& flags) {
    typename Flags<Flag>::bits_type bits{};
    get(bits);
    flags = Flags<Flag>::from_bits(bits);
  }
  void get(Qpn& qpn) {
    std::uint32_t value{};
    get(value);
    failed_ = failed_ || value > kMulticastQpn.value();
    qpn = failed_ ? Qpn{} : Qpn{value};
  }
  void get(Lid& lid) {
    std::uint32_t value{};
    get(value);
    lid = Lid{value};
  }
  void get(TimeScale& scale) {
    std::uint32_t value{};
    get(value);
    failed_ = failed_ || value < TimeScale::kMin || value > TimeScale::kMax;
    scale = failed_ ? TimeScale{} : TimeScale{value};
  }
  void get(ProcessAddress& address) {
    get(address.node);
    get(address.slot);
    failed_ = failed_ || address.slot >= kSlotCount;
  }
  void get(std::string& text) {
    std::uint32_t size{};
    get(size);
    if (failed_ || size > in_.size() || size > kMaxTextBytes) {
      failed_ = true;
      return;
    }
    text.resize(size);
    copy_bytes(std::as_writable_bytes(std::span{text}), in_.first(size));
    in_ = in_.subspan(size);
  }
  template <class Tag, class Value>
  void get(Ordered<Tag, Value>& number) {
    Value value{};
    get(value);
    number = Ordered<Tag, Value>{value};
  }
  void get(PKey& pkey) {
    std::uint16_t value{};
    get(value);
    pkey = PKey{value};
  }
  void get(QKey& qkey) {
    std::uint32_t value{};
    get(value);
    qkey = QKey{value};
  }
  void get(std::array<std::byte, 16>& octets) {
    if (in_.size() < octets.size()) {
      failed_ = true;
      return;
    }
    copy_bytes(octets, in_.first(octets.size()));
    in_ = in_.subspan(octets.size());
  }
  void get(Gid& gid) {
    std::array<std::byte, Gid::kSize> octets{};
    get(octets);
    gid = Gid{octets};
  }
  void get(RdmaCmPrivateData& data) {
    get(data.octets);
    failed_ = failed_ || data.octets.size() > kMaxRdmaCmPrivateData;
  }
  void get(Part auto& part) { describe(part, *this); }
  template <Noun T>
  void get(T& noun) {
    describe(noun, *this);
    if constexpr (Bounded<T>) {
      failed_ = failed_ || !is_in_range(noun);
    }
  }
  template <class T>
  void get(std::vector<T>& list) {
    std::uint32_t count{};
    get(count);
    // each element takes at least one byte
    if (failed_ || count > kMost<T> || count > in_.size()) {
      failed_ = true;
      return;
    }
    list.resize(count);
    if constexpr (std::is_same_v<T, std::byte>) {
      copy_bytes(list, in_.first(count));
      in_ = in_.subspan(count);
    } else {
      for (T& each : list) {
        get(each);
      }
    }
  }

  /// Reads an enumeration of one octet that has a checked conversion.
  template <class Enumeration>
  void get_by(std::optional<Enumeration> (*convert)(std::uint32_t), Enumeration& value) {
    std::uint8_t octet{};
    get(octet);
    const auto read = convert(octet);
    failed_ = failed_ || !read;
    value = read.value_or(value);
  }

  /// Reads a one-octet enumeration without gaps.
  template <class Enumeration>
  void get_one_of(Enumeration& value, Enumeration first, Enumeration last) {
    std::uint8_t octet{};
    get(octet);
    failed_ = failed_ || octet < std::to_underlying(first) || octet > std::to_underlying(last);
    value = failed_ ? first : static_cast<Enumeration>(octet);
  }

  ByteSpan in_;
  bool failed_{};
};

template <class OneMessage>
Result<Message> decode_as(ByteSpan body) {
  OneMessage message;
  Reader reader{body};
  describe(message, reader);
  if (!reader.is_whole()) {
    return fail(ErrorCode::Io, "control message {} of {} bytes is malformed",
                Message::kIndexOf<OneMessage>, body.size());
  }
  return Message{std::move(message)};
}

}  // namespace

std::size_t descriptors_of(const Message& message) {
  return message.visit(
      []<class OneMessage>(const OneMessage& /*message*/) { return kDescriptorsOf<OneMessage>; });
}

std::vector<std::byte> encode(const Message& message) {
  std::vector<std::byte> bytes;
  Writer writer{bytes};
  auto type = static_cast<std::uint32_t>(message.index());
  writer(type);
  message.visit([&](const auto& each) {
    auto copy = each;
    describe(copy, writer);
  });
  WEFT_ASSERT(bytes.size() <= kMaxMessageBytes, "who makes a message keeps to its limits");
  return bytes;
}

Result<Message> decode(ByteSpan bytes) {
  std::uint32_t type{};
  if (bytes.size() < sizeof type || bytes.size() > kMaxMessageBytes) {
    return fail(ErrorCode::Io, "a control message has 4 to {} bytes, not {}", kMaxMessageBytes,
                bytes.size());
  }
  std::memcpy(&type, bytes.data(), sizeof type);
  if (type >= Message::kCount) {
    return fail(ErrorCode::Io, "control message type {} is unknown: the two ends differ in version",
                type);
  }
  return Message::visit_kind(type, [&]<class OneMessage>(std::type_identity<OneMessage> /*kind*/) {
    return decode_as<OneMessage>(bytes.subspan(sizeof type));
  });
}

}  // namespace weft::uabi
