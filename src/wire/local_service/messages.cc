#include "wire/local_service/messages.h"

#include <algorithm>
#include <array>
#include <expected>
#include <span>
#include <string_view>

namespace weft::wire::local_service {
namespace {

using netlink::Attribute;
using netlink::MessageWriter;

/// LS_NLA_TYPE_*.
enum class Type : std::uint16_t {
  PathRecord = 1,
  Timeout = 2,
  ServiceId = 3,
  Dgid = 4,
  Sgid = 5,
  TClass = 6,
  PKey = 7,
  QosClass = 8,
  Ipv4 = 9,
  Ipv6 = 10,
};

struct Policy {
  Type type{};
  std::string_view name;
  std::size_t octets{};
};
constexpr std::array kPolicies = {
    Policy{.type = Type::PathRecord, .name = "PATH_RECORD", .octets = kPathDataBytes     },
    Policy{.type = Type::Timeout,    .name = "TIMEOUT",     .octets = 4                  },
    Policy{.type = Type::ServiceId,  .name = "SERVICE_ID",  .octets = 8                  },
    Policy{.type = Type::Dgid,       .name = "DGID",        .octets = Gid::kSize         },
    Policy{.type = Type::Sgid,       .name = "SGID",        .octets = Gid::kSize         },
    Policy{.type = Type::TClass,     .name = "TCLASS",      .octets = 1                  },
    Policy{.type = Type::PKey,       .name = "PKEY",        .octets = 2                  },
    Policy{.type = Type::QosClass,   .name = "QOS_CLASS",   .octets = 2                  },
    Policy{.type = Type::Ipv4,       .name = "IPV4",        .octets = IpAddress::kV4Bytes},
    Policy{.type = Type::Ipv6,       .name = "IPV6",        .octets = IpAddress::kV6Bytes},
};

[[nodiscard]] constexpr std::uint16_t mandatory(Type type) {
  return static_cast<std::uint16_t>(kMandatory | static_cast<std::uint16_t>(type));
}

/// struct rdma_ls_resolve_header.
struct ResolveHeader {
  std::array<char, kDeviceNameBytes> device_name{};
  std::uint8_t port{};
  std::uint8_t use{};
  using Fields =
      NativeFields<&ResolveHeader::device_name, &ResolveHeader::port, &ResolveHeader::use>;
};

/// struct rdma_ls_ip_resolve_header.
struct IpResolveHeader {
  std::uint32_t interface_index{};
  using Fields = NativeFields<&IpResolveHeader::interface_index>;
};

template <class T>
void put_header(MessageWriter& writer, const T& header) {
  std::vector<std::byte> octets;
  T::Fields::put(header, octets);
  writer.put_raw(octets);
}

/// Header and attributes of one message.
void begin(MessageWriter& writer, const Envelope& envelope, std::uint16_t type) {
  writer.begin({.length = 0,
                .type = type,
                .flags = envelope.flags,
                .sequence = envelope.sequence,
                .port = envelope.port});
}

/// Attributes of the payload behind `skip` octets, each of its type's size.
[[nodiscard]] Result<std::vector<Attribute>> attributes_of(ByteSpan payload, std::size_t skip) {
  const std::size_t first = std::min(netlink::aligned(skip), payload.size());
  std::vector<Attribute> attributes = netlink::parse_attributes(payload.subspan(first));
  for (Attribute& attribute : attributes) {
    const bool is_mandatory = (attribute.type & kMandatory) != 0;
    attribute.type = static_cast<std::uint16_t>(attribute.type & ~kMandatory);
    const auto policy =
        std::ranges::find(kPolicies, static_cast<Type>(attribute.type), &Policy::type);
    if (policy == kPolicies.end()) {
      if (is_mandatory) {
        return fail(ErrorCode::NotSupported, "attribute {} is mandatory and unknown",
                    attribute.type);
      }
      continue;
    }
    if (attribute.value.size() != policy->octets) {
      return fail(ErrorCode::InvalidArgument, "attribute {} has {} octets and should have {}",
                  policy->name, attribute.value.size(), policy->octets);
    }
  }
  return attributes;
}

[[nodiscard]] const Attribute* find(const std::vector<Attribute>& attributes, Type type) {
  return netlink::find(attributes, static_cast<std::uint16_t>(type));
}

template <class T>
[[nodiscard]] std::optional<T> number(const std::vector<Attribute>& attributes, Type type) {
  const Attribute* const found = find(attributes, type);
  return found == nullptr ? std::nullopt : found->number<T>();
}

template <class Octets>
[[nodiscard]] Octets octets_of(const Attribute& attribute) {
  Octets octets{};
  copy_bytes(octets, attribute.value.first(octets.size()));
  return octets;
}

[[nodiscard]] std::optional<Gid> gid(const std::vector<Attribute>& attributes, Type type) {
  const Attribute* const found = find(attributes, type);
  if (found == nullptr) {
    return std::nullopt;
  }
  return Gid{octets_of<std::array<std::byte, Gid::kSize>>(*found)};
}

}  // namespace

void append(std::vector<std::byte>& datagram, const Envelope& envelope,
            const ResolveRequest& said) {
  MessageWriter writer{datagram};
  begin(writer, envelope, type_of(Operation::Resolve));
  ResolveHeader header{.port = said.port, .use = static_cast<std::uint8_t>(said.use)};
  std::ranges::copy(said.device_name.substr(0, kDeviceNameBytes - 1), header.device_name.begin());
  put_header(writer, header);
  if (said.service_id) {
    writer.put_number(mandatory(Type::ServiceId), *said.service_id);
  }
  if (said.dgid) {
    writer.put(mandatory(Type::Dgid), said.dgid->octets());
  }
  if (said.sgid) {
    writer.put(mandatory(Type::Sgid), said.sgid->octets());
  }
  if (said.tclass) {
    writer.put_number(mandatory(Type::TClass), *said.tclass);
  }
  if (said.pkey) {
    writer.put_number(mandatory(Type::PKey), said.pkey->value());
  }
  if (said.qos_class) {
    writer.put_number(mandatory(Type::QosClass), *said.qos_class);
  }
  writer.end();
}

void append(std::vector<std::byte>& datagram, const Envelope& envelope, const ResolveAnswer& said) {
  MessageWriter writer{datagram};
  begin(writer, envelope, type_of(Operation::Resolve));
  for (const PathData& path : said.paths) {
    std::vector<std::byte> octets;
    put_path_data(path, octets);
    writer.put(static_cast<std::uint16_t>(Type::PathRecord), octets);
  }
  writer.end();
}

void append(std::vector<std::byte>& datagram, const Envelope& envelope, const SetTimeout& said) {
  MessageWriter writer{datagram};
  begin(writer, envelope, type_of(Operation::SetTimeout));
  writer.put_number(static_cast<std::uint16_t>(Type::Timeout), said.milliseconds);
  writer.end();
}

void append(std::vector<std::byte>& datagram, const Envelope& envelope,
            const IpResolveRequest& said) {
  MessageWriter writer{datagram};
  begin(writer, envelope, type_of(Operation::IpResolve));
  put_header(writer, IpResolveHeader{.interface_index = said.interface_index});
  writer.put(mandatory(said.address.is_v4() ? Type::Ipv4 : Type::Ipv6), said.address.octets());
  writer.end();
}

void append(std::vector<std::byte>& datagram, const Envelope& envelope,
            const IpResolveAnswer& said) {
  MessageWriter writer{datagram};
  begin(writer, envelope, type_of(Operation::IpResolve));
  writer.put(static_cast<std::uint16_t>(Type::Dgid), said.dgid.octets());
  writer.end();
}

void append_failure(std::vector<std::byte>& datagram, const Envelope& envelope,
                    Operation operation) {
  MessageWriter writer{datagram};
  begin(writer, envelope, type_of(operation) | kErrorBit);
  writer.end();
}

Result<ResolveRequest> parse_resolve_request(ByteSpan payload) {
  const auto header = ResolveHeader::Fields::take<ResolveHeader>(payload);
  if (!header) {
    return fail(ErrorCode::InvalidArgument, "{} octets are too few for a resolve header",
                payload.size());
  }
  if (header->use >= kPathUses) {
    return fail(ErrorCode::InvalidArgument, "use {} of a path; there are 0 to 2", header->use);
  }
  const auto name_end = std::ranges::find(header->device_name, '\0');
  if (name_end == header->device_name.end()) {
    return fail(ErrorCode::InvalidArgument, "a device's name of {} octets without its end",
                kDeviceNameBytes);
  }
  const auto attributes = attributes_of(payload, ResolveHeader::Fields::kBytes);
  if (!attributes) {
    return std::unexpected(attributes.error());
  }
  ResolveRequest said{
      .device_name = {header->device_name.begin(), name_end},
      .port = header->port,
      .use = static_cast<PathUse>(header->use),
      .service_id = number<std::uint64_t>(*attributes, Type::ServiceId),
      .dgid = gid(*attributes, Type::Dgid),
      .sgid = gid(*attributes, Type::Sgid),
      .tclass = number<std::uint8_t>(*attributes, Type::TClass),
      .pkey = {},
      .qos_class = number<std::uint16_t>(*attributes, Type::QosClass)
  };
  if (const auto pkey = number<std::uint16_t>(*attributes, Type::PKey)) {
    said.pkey = PKey{*pkey};
  }
  return said;
}

Result<ResolveAnswer> parse_resolve_answer(ByteSpan payload) {
  const auto attributes = attributes_of(payload, 0);
  if (!attributes) {
    return std::unexpected(attributes.error());
  }
  ResolveAnswer said;
  for (const Attribute& attribute : *attributes) {
    if (attribute.type != static_cast<std::uint16_t>(Type::PathRecord)) {
      continue;
    }
    if (said.paths.size() == kMaxPaths) {
      return fail(ErrorCode::InvalidArgument, "more than {} paths", kMaxPaths);
    }
    said.paths.push_back(take_path_data(attribute.value).value_or(PathData{}));
  }
  if (said.paths.empty()) {
    return fail(ErrorCode::NoData, "an answer without a path");
  }
  return said;
}

Result<SetTimeout> parse_set_timeout(ByteSpan payload) {
  const auto attributes = attributes_of(payload, 0);
  if (!attributes) {
    return std::unexpected(attributes.error());
  }
  const auto timeout = number<std::uint32_t>(*attributes, Type::Timeout);
  if (!timeout) {
    return fail(ErrorCode::InvalidArgument, "attribute TIMEOUT is missing");
  }
  return SetTimeout{.milliseconds = *timeout};
}

Result<IpResolveRequest> parse_ip_resolve_request(ByteSpan payload) {
  const auto header = IpResolveHeader::Fields::take<IpResolveHeader>(payload);
  if (!header) {
    return fail(ErrorCode::InvalidArgument, "{} octets are too few for an interface index",
                payload.size());
  }
  const auto attributes = attributes_of(payload, IpResolveHeader::Fields::kBytes);
  if (!attributes) {
    return std::unexpected(attributes.error());
  }
  IpResolveRequest said{.interface_index = header->interface_index, .address = {}};
  if (const Attribute* const v4 = find(*attributes, Type::Ipv4); v4 != nullptr) {
    said.address = IpAddress{octets_of<IpAddress::V4Octets>(*v4)};
  } else if (const Attribute* const v6 = find(*attributes, Type::Ipv6); v6 != nullptr) {
    said.address = IpAddress{octets_of<IpAddress::V6Octets>(*v6)};
  } else {
    return fail(ErrorCode::InvalidArgument, "an address is missing: IPV4 or IPV6");
  }
  return said;
}

Result<IpResolveAnswer> parse_ip_resolve_answer(ByteSpan payload) {
  const auto attributes = attributes_of(payload, 0);
  if (!attributes) {
    return std::unexpected(attributes.error());
  }
  const auto dgid = gid(*attributes, Type::Dgid);
  if (!dgid) {
    return fail(ErrorCode::NoData, "an answer without a DGID");
  }
  return IpResolveAnswer{.dgid = *dgid};
}

}  // namespace weft::wire::local_service
