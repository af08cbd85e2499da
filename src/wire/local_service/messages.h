#pragma once

// The netlink messages of RDMA_NL_LS (rdma/rdma_netlink.h, part of the kernel's ABI): a host's
// kernel asks a resolver in user space for paths and addresses, by the multicast group of local
// services, and the resolver answers or sets how long the kernel waits (R-NL-6).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/identifiers.h"
#include "base/ip_address.h"
#include "base/keys.h"
#include "base/result.h"
#include "wire/local_service/path_data.h"
#include "wire/netlink/message.h"

namespace weft::wire::local_service {

inline constexpr std::uint8_t kClient = 4;  ///< RDMA_NL_LS: the upper six bits of a message's type
inline constexpr std::uint32_t kGroup = 3;  ///< RDMA_NL_GROUP_LS

/// The lower ten bits of a message's type.
enum class Operation : std::uint16_t { Resolve = 0, SetTimeout = 1, IpResolve = 2 };
/// Of the type of an answer: the resolver has none (RDMA_NL_LS_F_ERR).
inline constexpr std::uint16_t kErrorBit = 0x0100;
/// Of the type of an attribute: who does not know it must refuse (RDMA_NLA_F_MANDATORY).
inline constexpr std::uint16_t kMandatory = 1U << 13;

[[nodiscard]] constexpr std::uint16_t type_of(Operation operation) {
  return static_cast<std::uint16_t>(kClient << 10 | static_cast<std::uint16_t>(operation));
}
[[nodiscard]] constexpr bool is_local_service(std::uint16_t type) { return type >> 10 == kClient; }
[[nodiscard]] constexpr Operation operation_of(std::uint16_t type) {
  return static_cast<Operation>(type & 0xFF);
}
[[nodiscard]] constexpr bool is_error(std::uint16_t type) { return (type & kErrorBit) != 0; }

/// How long the kernel waits, milliseconds.
inline constexpr std::uint32_t kDefaultTimeoutMs = 2'000;
inline constexpr std::uint32_t kTimeoutMinMs = 100;
inline constexpr std::uint32_t kTimeoutMaxMs = 200'000;

inline constexpr std::size_t kDeviceNameBytes = 64;
/// Records of one answer; a connection has six. Policy.
inline constexpr std::size_t kMaxPaths = 32;

/// What a header needs beside the type.
struct Envelope {
  std::uint32_t sequence{};
  std::uint32_t port{};  ///< the sender's netlink address; 0 is the kernel
  std::uint16_t flags{};
};

/// Kernel to resolver: a path, please. What is not there is not asked for.
struct ResolveRequest {
  std::string device_name{};
  std::uint8_t port{};
  PathUse use{};
  std::optional<std::uint64_t> service_id{};
  std::optional<Gid> dgid{};
  std::optional<Gid> sgid{};
  std::optional<std::uint8_t> tclass{};
  std::optional<PKey> pkey{};
  std::optional<std::uint16_t> qos_class{};
  bool operator==(const ResolveRequest&) const = default;
};

/// Resolver to kernel.
struct ResolveAnswer {
  std::vector<PathData> paths{};
  bool operator==(const ResolveAnswer&) const = default;
};

/// Resolver to kernel: wait so long from now on, also for what is asked already.
struct SetTimeout {
  std::uint32_t milliseconds{};
  bool operator==(const SetTimeout&) const = default;
};

/// Kernel to resolver: whose GID has the address behind this interface?
struct IpResolveRequest {
  std::uint32_t interface_index{};
  IpAddress address{};
  bool operator==(const IpResolveRequest&) const = default;
};

struct IpResolveAnswer {
  Gid dgid{};
  bool operator==(const IpResolveAnswer&) const = default;
};

void append(std::vector<std::byte>& datagram, const Envelope& envelope, const ResolveRequest& said);
void append(std::vector<std::byte>& datagram, const Envelope& envelope, const ResolveAnswer& said);
void append(std::vector<std::byte>& datagram, const Envelope& envelope, const SetTimeout& said);
void append(std::vector<std::byte>& datagram, const Envelope& envelope,
            const IpResolveRequest& said);
void append(std::vector<std::byte>& datagram, const Envelope& envelope,
            const IpResolveAnswer& said);
/// The resolver has no answer.
void append_failure(std::vector<std::byte>& datagram, const Envelope& envelope,
                    Operation operation);

// Each reads what follows the netlink header. Fails on too few octets, an attribute of the wrong
// size, one that is missing, a mandatory one that is none of these, or a use that there is not.
[[nodiscard]] Result<ResolveRequest> parse_resolve_request(ByteSpan payload);
[[nodiscard]] Result<ResolveAnswer> parse_resolve_answer(ByteSpan payload);
[[nodiscard]] Result<SetTimeout> parse_set_timeout(ByteSpan payload);
[[nodiscard]] Result<IpResolveRequest> parse_ip_resolve_request(ByteSpan payload);
[[nodiscard]] Result<IpResolveAnswer> parse_ip_resolve_answer(ByteSpan payload);

}  // namespace weft::wire::local_service
