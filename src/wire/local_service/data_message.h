#pragma once

// The netlink proposal's messages ("[RFC] IB/sa: Route SA pathrecord query through netlink"):
// behind the netlink header a data header of 16 octets, and data of one of six types, in the byte
// order of the machine (R-NL-2 to R-NL-5). The proposal leaves open how the netlink header names
// them and what the data of SET_TIMEOUT is. Our choices: an operation of RDMA_NL_LS that Linux has
// not, and four octets of milliseconds with type INVALID.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/ip_address.h"
#include "base/result.h"
#include "wire/local_service/messages.h"
#include "wire/mad/mad.h"
#include "wire/mad/path_record.h"

namespace weft::wire::local_service {

/// Of the netlink header's type, beside kClient.
inline constexpr std::uint16_t kDataOperation = 0x080;
inline constexpr std::uint16_t kDataMessageType = kClient << 10 | kDataOperation;

inline constexpr std::uint8_t kDataVersion = 1;          ///< IB_NL_VERSION
inline constexpr std::uint8_t kDataOpcodeMask = 0x0F;    ///< IB_NL_OP_MASK
inline constexpr std::uint8_t kDataAcknowledges = 0x80;  ///< IB_NL_OP_ACK: an answer

/// IB_NL_OP_*.
enum class DataOpcode : std::uint8_t { Resolve = 1, QueryPath = 2, SetTimeout = 3 };
/// IB_NL_STATUS_*.
enum class DataStatus : std::uint16_t { Success = 0, NoData = 1 };
/// IB_NL_DATA_TYPE_*.
enum class DataType : std::uint16_t {
  Invalid = 0,
  Name = 1,
  AddressIp = 2,
  AddressIp6 = 3,
  PathRecord = 4,
  UserPathRecord = 5,
  Mad = 6,
};

inline constexpr std::size_t kDataHeaderBytes = 16;
inline constexpr std::size_t kMaxNameBytes = 256;  ///< with its NUL; policy

/// A host's name.
struct NameData {
  std::string name{};
  bool operator==(const NameData&) const = default;
};
/// Of SET_TIMEOUT.
struct TimeoutData {
  std::uint32_t milliseconds{};
  bool operator==(const TimeoutData&) const = default;
};
/// A path as struct ib_user_path_rec carries it.
struct UserPathData {
  PathRecord path{};
  bool operator==(const UserPathData&) const = default;
};
/// A MAD of SA, as the first scheme carried it alone (R-NL-1a).
struct MadData {
  std::array<std::byte, kMadBytes> mad{};
  bool operator==(const MadData&) const = default;
};

/// monostate: no data.
using Data = std::variant<std::monostate, NameData, IpAddress, PathRecord, UserPathData, MadData,
                          TimeoutData>;

struct DataMessage {
  DataOpcode opcode{DataOpcode::QueryPath};
  bool is_answer{};
  DataStatus status{};
  std::uint32_t flags{};  ///< of path_data.h
  Data data{};
  bool operator==(const DataMessage&) const = default;
};

[[nodiscard]] DataType type_of(const Data& data);

void append(std::vector<std::byte>& datagram, const Envelope& envelope, const DataMessage& said);

/// Reads what follows the netlink header. Fails on another version, opcode, status or type than
/// those above, or a length that does not fit the type and what is there.
[[nodiscard]] Result<DataMessage> parse_data_message(ByteSpan payload);

}  // namespace weft::wire::local_service
