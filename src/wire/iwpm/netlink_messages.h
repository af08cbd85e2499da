#pragma once

// The netlink messages between the kernel's side of the iWARP port mapper and its daemon
// (rdma/rdma_netlink.h, which is part of the kernel's ABI: RDMA_NL_IWPM_*, IWPM_NLA_*).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "wire/iwpm/attributes.h"
#include "wire/iwpm/socket_address.h"
#include "wire/netlink/message.h"

namespace weft::wire::iwpm {

/// Clients of RDMA netlink that may map ports: the upper six bits of a message's type. Only version
/// 3 knows the second one.
inline constexpr std::uint8_t kClientIwcm = 2;
inline constexpr std::uint8_t kClientC4iw = 3;
inline constexpr std::uint8_t kClients = 6;  ///< RDMA_NL_NUM_CLIENTS

/// The multicast group in which daemons listen (RDMA_NL_GROUP_IWPM).
inline constexpr std::uint32_t kGroup = 2;

/// RDMA_NL_IWPM_*: the lower ten bits of a message's type.
enum class Operation : std::uint16_t {
  RegisterPid = 0,
  AddMapping = 1,
  QueryMapping = 2,
  RemoveMapping = 3,
  RemoteInfo = 4,
  HandleError = 5,
  Mapinfo = 6,
  MapinfoCount = 7,
  Hello = 8,
};
inline constexpr std::uint16_t kOperations = 9;

/// What the daemon answers instead (include/rdma/iw_portmap.h).
enum class DaemonError : std::uint16_t {
  None = 0,
  InvalidMessage = 10,
  CreateMapping = 11,
  DuplicateMapping = 12,
  UnknownMapping = 13,
  ClientDeviceInfo = 14,
  UserLibraryInfo = 15,
  RemoteQueryReject = 16,
  VersionMismatch = 17,
};

/// Flag of a mapping request (IWPM_FLAGS_NO_PORT_MAP): keep a record, and the port as it is.
inline constexpr std::uint32_t kFlagNoPortMap = 1;

inline constexpr std::string_view kLibraryName = "iWarpPortMapperUser";
inline constexpr std::size_t kLibraryNameBytes = 32;
inline constexpr std::size_t kDeviceNameBytes = 32;
inline constexpr std::size_t kInterfaceNameBytes = 16;

[[nodiscard]] constexpr std::uint16_t type_of(std::uint8_t client, Operation operation) {
  return static_cast<std::uint16_t>(client << 10 | static_cast<std::uint16_t>(operation));
}
[[nodiscard]] constexpr std::uint8_t client_of(std::uint16_t type) {
  return static_cast<std::uint8_t>(type >> 10);
}
[[nodiscard]] constexpr Operation operation_of(std::uint16_t type) {
  return static_cast<Operation>(type & 0x3FF);
}

// Member `sequence` of what the kernel sends is the last sequence number that it had from the
// daemon; of what the daemon sends, the number of the request that it answers.

/// To the daemon, by multicast: who are you?
struct RegisterPid {
  std::uint32_t sequence{};
  std::string interface_name;
  std::string device_name;
  std::string library_name;
  bool operator==(const RegisterPid&) const = default;

  static constexpr std::string_view kName = "register pid";
  static constexpr Operation kOperation = Operation::RegisterPid;
  using List =
      Attributes<Number<"PID_SEQ", 1, &RegisterPid::sequence>,
                 Text<"IF_NAME", 2, kInterfaceNameBytes, &RegisterPid::interface_name, true>,
                 Text<"IBDEV_NAME", 3, kDeviceNameBytes, &RegisterPid::device_name, true>,
                 Text<"ULIB_NAME", 4, kLibraryNameBytes, &RegisterPid::library_name, true>>;
};

struct RegisterPidAnswer {
  std::uint32_t sequence{};
  std::string device_name;
  std::string library_name;
  std::uint16_t library_version{};
  std::uint16_t error{};
  bool operator==(const RegisterPidAnswer&) const = default;

  static constexpr std::string_view kName = "answer to register pid";
  static constexpr Operation kOperation = Operation::RegisterPid;
  using List =
      Attributes<Number<"PID_SEQ", 1, &RegisterPidAnswer::sequence>,
                 Text<"IBDEV_NAME", 2, kDeviceNameBytes, &RegisterPidAnswer::device_name, false>,
                 Text<"ULIB_NAME", 3, kLibraryNameBytes, &RegisterPidAnswer::library_name, false>,
                 Number<"ULIB_VER", 4, &RegisterPidAnswer::library_version>,
                 Number<"PID_ERR", 5, &RegisterPidAnswer::error>>;
};

/// To the daemon: map this address.
struct AddMapping {
  std::uint32_t sequence{};
  SocketAddress local;
  std::uint32_t flags{};
  bool operator==(const AddMapping&) const = default;

  static constexpr std::string_view kName = "add mapping";
  static constexpr Operation kOperation = Operation::AddMapping;
  using List =
      Attributes<Number<"MAPPING_SEQ", 1, &AddMapping::sequence>,
                 Address<"ADDR", 2, &AddMapping::local>, Number<"FLAGS", 3, &AddMapping::flags, 4>>;
};

struct AddMappingAnswer {
  std::uint32_t sequence{};
  SocketAddress local;
  SocketAddress mapped_local;
  std::uint16_t error{};
  bool operator==(const AddMappingAnswer&) const = default;

  static constexpr std::string_view kName = "answer to add mapping";
  static constexpr Operation kOperation = Operation::AddMapping;
  using List = Attributes<Number<"MAPPING_SEQ", 1, &AddMappingAnswer::sequence>,
                          Address<"ADDR", 2, &AddMappingAnswer::local>,
                          Address<"MAPPED_LOC_ADDR", 3, &AddMappingAnswer::mapped_local>,
                          Number<"MAPPING_ERR", 4, &AddMappingAnswer::error>>;
};

/// To the daemon: map this address, and ask the peer's daemon what its address is mapped to.
struct QueryMapping {
  std::uint32_t sequence{};
  SocketAddress local;
  SocketAddress remote;
  std::uint32_t flags{};
  bool operator==(const QueryMapping&) const = default;

  static constexpr std::string_view kName = "query mapping";
  static constexpr Operation kOperation = Operation::QueryMapping;
  using List = Attributes<Number<"MAPPING_SEQ", 1, &QueryMapping::sequence>,
                          Address<"LOCAL_ADDR", 2, &QueryMapping::local>,
                          Address<"REMOTE_ADDR", 3, &QueryMapping::remote>,
                          Number<"FLAGS", 4, &QueryMapping::flags, 4>>;
};

/// The answer; with Operation::RemoteInfo and sequence 0, what a peer has asked.
struct ConnectionInfo {
  std::uint32_t sequence{};
  SocketAddress local;
  SocketAddress remote;
  SocketAddress mapped_local;
  SocketAddress mapped_remote;
  std::uint16_t error{};
  bool operator==(const ConnectionInfo&) const = default;

  static constexpr std::string_view kName = "connection info";
  static constexpr Operation kOperation = Operation::QueryMapping;
  using List = Attributes<Number<"MAPPING_SEQ", 1, &ConnectionInfo::sequence>,
                          Address<"LOCAL_ADDR", 2, &ConnectionInfo::local>,
                          Address<"REMOTE_ADDR", 3, &ConnectionInfo::remote>,
                          Address<"MAPPED_LOC_ADDR", 4, &ConnectionInfo::mapped_local>,
                          Address<"MAPPED_REM_ADDR", 5, &ConnectionInfo::mapped_remote>,
                          Number<"MAPPING_ERR", 6, &ConnectionInfo::error>>;
};

/// To the daemon: one user of the mapping is gone. No answer.
struct RemoveMapping {
  std::uint32_t sequence{};
  SocketAddress local;
  bool operator==(const RemoveMapping&) const = default;

  static constexpr std::string_view kName = "remove mapping";
  static constexpr Operation kOperation = Operation::RemoveMapping;
  using List = Attributes<Number<"MAPPING_SEQ", 1, &RemoveMapping::sequence>,
                          Address<"ADDR", 2, &RemoveMapping::local>>;
};

/// To the kernel: I know nothing, what have you mapped?
struct MapinfoRequest {
  std::string library_name;
  std::uint16_t library_version{};
  bool operator==(const MapinfoRequest&) const = default;

  static constexpr std::string_view kName = "request for mapping info";
  static constexpr Operation kOperation = Operation::Mapinfo;
  using List =
      Attributes<Text<"ULIB_NAME", 1, kLibraryNameBytes, &MapinfoRequest::library_name, false>,
                 Number<"ULIB_VER", 2, &MapinfoRequest::library_version>>;
};

/// To the daemon: a mapping in use.
struct Mapinfo {
  SocketAddress local;
  SocketAddress mapped;
  std::uint32_t flags{};
  bool operator==(const Mapinfo&) const = default;

  static constexpr std::string_view kName = "mapping info";
  static constexpr Operation kOperation = Operation::Mapinfo;
  using List = Attributes<Address<"LOCAL_ADDR", 1, &Mapinfo::local>,
                          Address<"MAPPED_ADDR", 2, &Mapinfo::mapped>,
                          Number<"FLAGS", 3, &Mapinfo::flags, 4>>;
};

/// To the daemon: so many there were.
struct MapinfoCount {
  std::uint32_t sequence{};
  std::uint32_t sent{};
  bool operator==(const MapinfoCount&) const = default;

  static constexpr std::string_view kName = "number of mappings";
  static constexpr Operation kOperation = Operation::MapinfoCount;
  using List = Attributes<Number<"SEQ", 1, &MapinfoCount::sequence>,
                          Number<"SEND_NUM", 2, &MapinfoCount::sent>>;
};

struct MapinfoCountAnswer {
  std::uint32_t sequence{};
  std::uint32_t sent{};
  std::uint32_t received{};
  bool operator==(const MapinfoCountAnswer&) const = default;

  static constexpr std::string_view kName = "acknowledgement of mapping info";
  static constexpr Operation kOperation = Operation::MapinfoCount;
  using List = Attributes<Number<"SEQ", 1, &MapinfoCountAnswer::sequence>,
                          Number<"SEND_NUM", 2, &MapinfoCountAnswer::sent>,
                          Number<"ACK_NUM", 3, &MapinfoCountAnswer::received>>;
};

/// To the kernel: the request with that number failed.
struct HandleError {
  std::uint32_t sequence{};
  std::uint16_t error{};
  bool operator==(const HandleError&) const = default;

  static constexpr std::string_view kName = "mapping error";
  static constexpr Operation kOperation = Operation::HandleError;
  using List = Attributes<Number<"ERR_SEQ", 1, &HandleError::sequence>,
                          Number<"ERR_CODE", 2, &HandleError::error>>;
};

/// Both ways: my version. The daemon begins.
struct Hello {
  std::uint16_t abi{};
  bool operator==(const Hello&) const = default;

  static constexpr std::string_view kName = "hello";
  static constexpr Operation kOperation = Operation::Hello;
  using List = Attributes<Number<"ABI_VERSION", 1, &Hello::abi>>;
};

/// Octets that a datagram to a daemon may have: what Linux puts into one page. iwpmd reads 4,112.
inline constexpr std::size_t kMessageRoom = 3776;

/// What a header needs beside the operation.
struct Envelope {
  std::uint8_t client{kClientIwcm};
  std::uint32_t sequence{};
  std::uint32_t port{};  ///< the sender's netlink address; 0 is the kernel
  std::uint16_t flags{netlink::kFlagRequest};
};

/// The seed's iwpm_create_nlmsg: begins a message of `payload` octets behind what is in `datagram`
/// already. None, and nothing is written, if header and payload do not fit into `room` octets.
[[nodiscard]] std::optional<netlink::MessageWriter> create_message(std::vector<std::byte>& datagram,
                                                                   std::size_t room,
                                                                   const Envelope& envelope,
                                                                   Operation operation,
                                                                   std::size_t payload);

/// Appends a whole message. False, and nothing is written, if it does not fit.
template <class Message>
[[nodiscard]] bool append(std::vector<std::byte>& datagram, std::size_t room,
                          const Envelope& envelope, const Message& message,
                          std::uint16_t abi = kAbi, Operation operation = Message::kOperation) {
  using List = typename Message::List;
  auto writer = create_message(datagram, room, envelope, operation, List::octets(message, abi));
  if (!writer) {
    return false;
  }
  List::put(message, abi, *writer);
  writer->end();
  return true;
}

/// Reads and validates the attributes of a message.
template <class Message>
[[nodiscard]] Result<Message> parse(ByteSpan payload, std::uint16_t abi = kAbi) {
  using List = typename Message::List;
  const auto table = parse_attributes(payload, List::kPolicy, abi, Message::kName);
  if (!table) {
    return std::unexpected(table.error());
  }
  Message message;
  List::take(message, abi, *table);
  return message;
}

}  // namespace weft::wire::iwpm
