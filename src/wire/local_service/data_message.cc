#include "wire/local_service/data_message.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace weft::wire::local_service {
namespace {

/// struct ib_nl_data_hdr.
struct DataHeader {
  std::uint8_t version{};
  std::uint8_t opcode{};
  std::uint16_t status{};
  std::uint16_t type{};
  std::uint16_t reserved{};
  std::uint32_t flags{};
  std::uint32_t length{};  // octets, this header included
  using Fields = NativeFields<&DataHeader::version, &DataHeader::opcode, &DataHeader::status,
                              &DataHeader::type, &DataHeader::reserved, &DataHeader::flags,
                              &DataHeader::length>;
};
static_assert(DataHeader::Fields::kBytes == kDataHeaderBytes);

/// A number in network order inside of a native structure.
template <std::size_t kOctets>
using Network = std::array<std::byte, kOctets>;

template <std::size_t kOctets>
[[nodiscard]] Network<kOctets> to_network(std::uint32_t number) {
  Network<kOctets> octets{};
  for (std::size_t i = 0; i < kOctets; ++i) {
    octets[i] = static_cast<std::byte>(number >> (8 * (kOctets - 1 - i)));
  }
  return octets;
}
template <std::size_t kOctets>
[[nodiscard]] std::uint32_t from_network(const Network<kOctets>& octets) {
  std::uint32_t number = 0;
  for (const std::byte octet : octets) {
    number = number << 8 | std::to_integer<std::uint32_t>(octet);
  }
  return number;
}

/// struct ib_user_path_rec (rdma/ib_user_sa.h).
struct UserPathRecord {
  std::array<std::byte, Gid::kSize> dgid{};
  std::array<std::byte, Gid::kSize> sgid{};
  Network<2> dlid{};
  Network<2> slid{};
  std::uint32_t raw_traffic{};
  Network<4> flow_label{};
  std::uint32_t reversible{};
  std::uint32_t mtu{};
  Network<2> pkey{};
  std::uint8_t hop_limit{};
  std::uint8_t tclass{};
  std::uint8_t path_count{};
  std::uint8_t sl{};
  std::uint8_t mtu_selector{};
  std::uint8_t rate_selector{};
  std::uint8_t rate{};
  std::uint8_t packet_life_time_selector{};
  std::uint8_t packet_life_time{};
  std::uint8_t preference{};
  using U = UserPathRecord;
  using Fields =
      NativeFields<&U::dgid, &U::sgid, &U::dlid, &U::slid, &U::raw_traffic, &U::flow_label,
                   &U::reversible, &U::mtu, &U::pkey, &U::hop_limit, &U::tclass, &U::path_count,
                   &U::sl, &U::mtu_selector, &U::rate_selector, &U::rate,
                   &U::packet_life_time_selector, &U::packet_life_time, &U::preference>;
};
static_assert(UserPathRecord::Fields::kBytes == 64);

/// What a PathRecord has and this has not (service id, QoS class) is left out.
[[nodiscard]] UserPathRecord to_user(const PathRecord& path) {
  return {.dgid = path.dgid.octets(),
          .sgid = path.sgid.octets(),
          .dlid = to_network<2>(path.dlid.value()),
          .slid = to_network<2>(path.slid.value()),
          .raw_traffic = path.raw_traffic ? 1U : 0U,
          .flow_label = to_network<4>(path.flow_label),
          .reversible = path.reversible ? 1U : 0U,
          .mtu = path.mtu,
          .pkey = to_network<2>(path.pkey.value()),
          .hop_limit = path.hop_limit,
          .tclass = path.tclass,
          .path_count = path.path_count,
          .sl = path.sl.value(),
          .mtu_selector = static_cast<std::uint8_t>(path.mtu_selector),
          .rate_selector = static_cast<std::uint8_t>(path.rate_selector),
          .rate = path.rate,
          .packet_life_time_selector = static_cast<std::uint8_t>(path.packet_life_time_selector),
          .packet_life_time = path.packet_life_time,
          .preference = path.preference};
}

/// None: a value is wider than its field of a PathRecord.
[[nodiscard]] std::optional<PathRecord> from_user(const UserPathRecord& user) {
  constexpr std::uint8_t kSelectors = 4;
  constexpr std::uint32_t kFlowLabels = 1U << 20;
  constexpr std::uint8_t kSixBits = 1U << 6;
  constexpr std::uint8_t kPathCounts = 1U << 7;
  constexpr std::uint8_t kSls = 16;
  const std::uint32_t flow_label = from_network(user.flow_label);
  const bool is_good =
      user.raw_traffic <= 1 && user.reversible <= 1 && flow_label < kFlowLabels &&
      user.mtu < kSixBits && user.rate < kSixBits && user.packet_life_time < kSixBits &&
      user.path_count < kPathCounts && user.sl < kSls && user.mtu_selector < kSelectors &&
      user.rate_selector < kSelectors && user.packet_life_time_selector < kSelectors;
  if (!is_good) {
    return std::nullopt;
  }
  return PathRecord{
      .dgid = Gid{user.dgid},
      .sgid = Gid{user.sgid},
      .dlid = Lid{from_network(user.dlid)},
      .slid = Lid{from_network(user.slid)},
      .raw_traffic = user.raw_traffic == 1,
      .flow_label = flow_label,
      .hop_limit = user.hop_limit,
      .tclass = user.tclass,
      .reversible = user.reversible == 1,
      .path_count = user.path_count,
      .pkey = PKey{static_cast<std::uint16_t>(from_network(user.pkey))},
      .sl = ServiceLevel{user.sl},
      .mtu_selector = static_cast<Selector>(user.mtu_selector),
      .mtu = static_cast<std::uint8_t>(user.mtu),
      .rate_selector = static_cast<Selector>(user.rate_selector),
      .rate = user.rate,
      .packet_life_time_selector = static_cast<Selector>(user.packet_life_time_selector),
      .packet_life_time = user.packet_life_time,
      .preference = user.preference,
  };
}

void put_octets(std::vector<std::byte>& out, ByteSpan octets) {
  out.insert(out.end(), octets.begin(), octets.end());
}

/// The octets of each kind of data.
struct PutData {
  std::vector<std::byte>& out;
  void operator()(const std::monostate&) const {}
  void operator()(const NameData& data) const {
    put_octets(out, std::as_bytes(std::span{data.name}));
    out.push_back(std::byte{0});
  }
  void operator()(const IpAddress& data) const { put_octets(out, data.octets()); }
  void operator()(const PathRecord& data) const { put_octets(out, pack(data)); }
  void operator()(const UserPathData& data) const {
    UserPathRecord::Fields::put(to_user(data.path), out);
  }
  void operator()(const MadData& data) const { put_octets(out, data.mad); }
  void operator()(const TimeoutData& data) const {
    put_octets(out, std::as_bytes(std::span{&data.milliseconds, 1}));
  }
};

template <class Octets>
[[nodiscard]] std::optional<Octets> exactly(ByteSpan octets) {
  Octets copied{};
  if (octets.size() != copied.size()) {
    return std::nullopt;
  }
  copy_bytes(copied, octets);
  return copied;
}

[[nodiscard]] std::optional<Data> take_name(ByteSpan octets) {
  // One NUL, at the end.
  const auto end = std::ranges::find(octets, std::byte{0});
  if (octets.empty() || octets.size() > kMaxNameBytes || end != octets.end() - 1) {
    return std::nullopt;
  }
  NameData data;
  for (const std::byte octet : octets.first(octets.size() - 1)) {
    data.name.push_back(static_cast<char>(octet));
  }
  return data;
}

[[nodiscard]] std::optional<Data> take_invalid(ByteSpan octets, DataOpcode opcode) {
  if (octets.empty()) {
    return Data{};
  }
  if (opcode != DataOpcode::SetTimeout || octets.size() != sizeof(std::uint32_t)) {
    return std::nullopt;
  }
  TimeoutData data;
  copy_bytes(std::as_writable_bytes(std::span{&data.milliseconds, 1}), octets);
  return data;
}

/// None: not what data of this type is like.
[[nodiscard]] std::optional<Data> take_data(DataType type, DataOpcode opcode, ByteSpan octets) {
  switch (type) {
    case DataType::Invalid:
      return take_invalid(octets, opcode);
    case DataType::Name:
      return take_name(octets);
    case DataType::AddressIp:
      if (const auto v4 = exactly<IpAddress::V4Octets>(octets)) {
        return IpAddress{*v4};
      }
      break;
    case DataType::AddressIp6:
      if (const auto v6 = exactly<IpAddress::V6Octets>(octets)) {
        return IpAddress{*v6};
      }
      break;
    case DataType::PathRecord:
      if (octets.size() == kSizeOf<PathRecord>) {
        if (const auto path = parse<PathRecord>(octets)) {
          return *path;
        }
      }
      break;
    case DataType::UserPathRecord:
      if (octets.size() == UserPathRecord::Fields::kBytes) {
        if (const auto path = from_user(*UserPathRecord::Fields::take<UserPathRecord>(octets))) {
          return UserPathData{*path};
        }
      }
      break;
    case DataType::Mad:
      if (const auto mad = exactly<std::array<std::byte, kMadBytes>>(octets)) {
        return MadData{*mad};
      }
      break;
  }
  return std::nullopt;
}

}  // namespace

DataType type_of(const Data& data) {
  if (const auto* const address = std::get_if<IpAddress>(&data)) {
    return address->is_v4() ? DataType::AddressIp : DataType::AddressIp6;
  }
  // In the order of the alternatives; an address is above.
  static constexpr std::array kTypes = {
      DataType::Invalid,        DataType::Name, DataType::AddressIp, DataType::PathRecord,
      DataType::UserPathRecord, DataType::Mad,  DataType::Invalid};
  static_assert(kTypes.size() == std::variant_size_v<Data>);
  return kTypes[data.index()];
}

void append(std::vector<std::byte>& datagram, const Envelope& envelope, const DataMessage& said) {
  std::vector<std::byte> data;
  std::visit(PutData{data}, said.data);
  std::vector<std::byte> octets;
  DataHeader::Fields::put(
      DataHeader{.version = kDataVersion,
                 .opcode = static_cast<std::uint8_t>(static_cast<unsigned>(said.opcode) |
                                                     (said.is_answer ? kDataAcknowledges : 0U)),
                 .status = static_cast<std::uint16_t>(said.status),
                 .type = static_cast<std::uint16_t>(type_of(said.data)),
                 .flags = said.flags,
                 .length = static_cast<std::uint32_t>(kDataHeaderBytes + data.size())},
      octets);
  put_octets(octets, data);
  netlink::MessageWriter writer{datagram};
  writer.begin({.length = 0,
                .type = kDataMessageType,
                .flags = envelope.flags,
                .sequence = envelope.sequence,
                .port = envelope.port});
  writer.put_raw(octets);
  writer.end();
}

Result<DataMessage> parse_data_message(ByteSpan payload) {
  const auto header = DataHeader::Fields::take<DataHeader>(payload);
  if (!header) {
    return fail(ErrorCode::InvalidArgument, "{} octets are too few for a data header",
                payload.size());
  }
  if (header->version != kDataVersion) {
    return fail(ErrorCode::NotSupported, "version {} of the data header; 1 is spoken",
                header->version);
  }
  if (header->length < kDataHeaderBytes || header->length > payload.size()) {
    return fail(ErrorCode::InvalidArgument, "length {} of {} octets that are there", header->length,
                payload.size());
  }
  const auto opcode = static_cast<DataOpcode>(header->opcode & kDataOpcodeMask);
  const unsigned others =
      header->opcode & ~unsigned{kDataOpcodeMask} & ~unsigned{kDataAcknowledges};
  if (opcode < DataOpcode::Resolve || opcode > DataOpcode::SetTimeout || others != 0) {
    return fail(ErrorCode::NotSupported, "opcode {:#x}; there are 1 to 3, and {:#x} for answers",
                header->opcode, kDataAcknowledges);
  }
  const auto status = static_cast<DataStatus>(header->status);
  if (status > DataStatus::NoData) {
    return fail(ErrorCode::InvalidArgument, "status {}; there are 0 and 1", header->status);
  }
  const auto data = take_data(static_cast<DataType>(header->type), opcode,
                              payload.first(header->length).subspan(kDataHeaderBytes));
  if (!data) {
    return fail(ErrorCode::InvalidArgument, "data of type {} cannot have these {} octets",
                header->type, header->length - kDataHeaderBytes);
  }
  return DataMessage{.opcode = opcode,
                     .is_answer = (header->opcode & kDataAcknowledges) != 0,
                     .status = status,
                     .flags = header->flags,
                     .data = *data};
}

}  // namespace weft::wire::local_service
