#pragma once

// A second decoder of SRP's information units and of device management, for tests: it is made of
// the tables of field offsets alone and shares no code with wire/layout.h. It judges our octets and
// those of captures alike: lengths, fields, and reserved ones that must be zero.

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"

namespace weft::wire::srp_tables {

/// Offset in octets, then in bits from there, as the tables say it; a name of "-" is reserved.
struct Row {
  std::string_view name;
  std::size_t octet;
  std::size_t bit;
  std::size_t bits;
};

struct Table {
  std::string_view name;
  std::size_t octets;
  std::span<const Row> rows;
};

struct Decoded {
  std::string_view name;
  std::map<std::string, std::uint64_t> numbers{};
  std::map<std::string, std::vector<std::byte>> octets{};  // fields of more than 64 bits
  std::vector<std::string> faults{};
};

inline constexpr std::array kLoginReq{
    Row{"OPCODE",                                  0,  0, 8  },
    Row{"-",                                       1,  0, 56 },
    Row{"TAG",                                     8,  0, 64 },
    Row{"REQUESTED INITIATOR TO TARGET IU LENGTH", 16, 0, 32 },
    Row{"-",                                       20, 0, 32 },
    Row{"REQUIRED BUFFER FORMATS",                 24, 0, 16 },
    Row{"IMMEDIATE DATA",                          26, 0, 1  },
    Row{"-",                                       26, 1, 5  },
    Row{"MULTI-CHANNEL ACTION",                    26, 6, 2  },
    Row{"-",                                       27, 0, 8  },
    Row{"IMMEDIATE DATA OFFSET",                   28, 0, 16 },
    Row{"-",                                       30, 0, 16 },
    Row{"INITIATOR PORT IDENTIFIER",               32, 0, 128},
    Row{"TARGET PORT IDENTIFIER",                  48, 0, 128}
};
inline constexpr std::array kLoginReqRdmaCm{
    Row{"TAG",                                     0,  0, 64 },
    Row{"REQUIRED BUFFER FORMATS",                 8,  0, 16 },
    Row{"IMMEDIATE DATA",                          10, 0, 1  },
    Row{"-",                                       10, 1, 5  },
    Row{"MULTI-CHANNEL ACTION",                    10, 6, 2  },
    Row{"OPCODE",                                  11, 0, 8  },
    Row{"REQUESTED INITIATOR TO TARGET IU LENGTH", 12, 0, 32 },
    Row{"INITIATOR PORT IDENTIFIER",               16, 0, 128},
    Row{"TARGET PORT IDENTIFIER",                  32, 0, 128},
    Row{"IMMEDIATE DATA OFFSET",                   48, 0, 16 },
    Row{"-",                                       50, 0, 48 }
};
inline constexpr std::array kLoginRsp{
    Row{"OPCODE",                                0,  0, 8  },
    Row{"-",                                     1,  0, 24 },
    Row{"REQUEST LIMIT DELTA",                   4,  0, 32 },
    Row{"TAG",                                   8,  0, 64 },
    Row{"MAXIMUM INITIATOR TO TARGET IU LENGTH", 16, 0, 32 },
    Row{"MAXIMUM TARGET TO INITIATOR IU LENGTH", 20, 0, 32 },
    Row{"SUPPORTED BUFFER FORMATS",              24, 0, 16 },
    Row{"IMMEDIATE DATA",                        26, 0, 1  },
    Row{"-",                                     26, 1, 5  },
    Row{"MULTI-CHANNEL RESULT",                  26, 6, 2  },
    Row{"-",                                     27, 0, 200}
};
inline constexpr std::array kLoginRej{
    Row{"OPCODE",                   0,  0, 8 },
    Row{"-",                        1,  0, 24},
    Row{"REASON",                   4,  0, 32},
    Row{"TAG",                      8,  0, 64},
    Row{"-",                        16, 0, 64},
    Row{"SUPPORTED BUFFER FORMATS", 24, 0, 16},
    Row{"-",                        26, 0, 48}
};
inline constexpr std::array kTagOnly{
    Row{"OPCODE", 0, 0, 8 },
    Row{"-",      1, 0, 56},
    Row{"TAG",    8, 0, 64}
};
inline constexpr std::array kTLogout{
    Row{"OPCODE", 0, 0, 8 },
    Row{"SOLNT",  1, 0, 8 },
    Row{"-",      2, 0, 16},
    Row{"REASON", 4, 0, 32},
    Row{"TAG",    8, 0, 64}
};
inline constexpr std::array kTskMgmt{
    Row{"OPCODE",                    0,  0, 8 },
    Row{"SOLNT",                     1,  0, 8 },
    Row{"-",                         2,  0, 48},
    Row{"TAG",                       8,  0, 64},
    Row{"-",                         16, 0, 32},
    Row{"LUN",                       20, 0, 64},
    Row{"-",                         28, 0, 16},
    Row{"TASK MANAGEMENT FUNCTION",  30, 0, 8 },
    Row{"-",                         31, 0, 8 },
    Row{"TAG OF TASK TO BE MANAGED", 32, 0, 64},
    Row{"-",                         40, 0, 64}
};
inline constexpr std::array kCmd{
    Row{"OPCODE",                            0,  0, 8  },
    Row{"SOLNT",                             1,  0, 8  },
    Row{"-",                                 2,  0, 24 },
    Row{"DATA-OUT BUFFER DESCRIPTOR FORMAT", 5,  0, 4  },
    Row{"DATA-IN BUFFER DESCRIPTOR FORMAT",  5,  4, 4  },
    Row{"DATA-OUT BUFFER DESCRIPTOR COUNT",  6,  0, 8  },
    Row{"DATA-IN BUFFER DESCRIPTOR COUNT",   7,  0, 8  },
    Row{"TAG",                               8,  0, 64 },
    Row{"-",                                 16, 0, 32 },
    Row{"LUN",                               20, 0, 64 },
    Row{"-",                                 28, 0, 8  },
    Row{"TASK ATTRIBUTE",                    29, 0, 8  },
    Row{"-",                                 30, 0, 8  },
    Row{"ADDITIONAL CDB LENGTH",             31, 0, 6  },
    Row{"-",                                 31, 6, 2  },
    Row{"CDB",                               32, 0, 128}
};
inline constexpr std::array kRsp{
    Row{"OPCODE",                    0,  0, 8 },
    Row{"SOLNT",                     1,  0, 8 },
    Row{"-",                         2,  0, 16},
    Row{"REQUEST LIMIT DELTA",       4,  0, 32},
    Row{"TAG",                       8,  0, 64},
    Row{"-",                         16, 0, 16},
    Row{"FLAGS",                     18, 0, 8 },
    Row{"STATUS",                    19, 0, 8 },
    Row{"DATA-OUT RESIDUAL COUNT",   20, 0, 32},
    Row{"DATA-IN RESIDUAL COUNT",    24, 0, 32},
    Row{"SENSE DATA LIST LENGTH",    28, 0, 32},
    Row{"RESPONSE DATA LIST LENGTH", 32, 0, 32}
};
inline constexpr std::array kCredReq{
    Row{"OPCODE",              0, 0, 8 },
    Row{"SOLNT",               1, 0, 8 },
    Row{"-",                   2, 0, 16},
    Row{"REQUEST LIMIT DELTA", 4, 0, 32},
    Row{"TAG",                 8, 0, 64}
};
inline constexpr std::array kAerReq{
    Row{"OPCODE",                 0,  0, 8 },
    Row{"SOLNT",                  1,  0, 8 },
    Row{"-",                      2,  0, 16},
    Row{"REQUEST LIMIT DELTA",    4,  0, 32},
    Row{"TAG",                    8,  0, 64},
    Row{"-",                      16, 0, 32},
    Row{"LUN",                    20, 0, 64},
    Row{"SENSE DATA LIST LENGTH", 28, 0, 32},
    Row{"-",                      32, 0, 32}
};
inline constexpr std::array kDirect{
    Row{"VIRTUAL ADDRESS", 0,  0, 64},
    Row{"MEMORY HANDLE",   8,  0, 32},
    Row{"DATA LENGTH",     12, 0, 32}
};
inline constexpr std::array kIndirect{
    Row{"VIRTUAL ADDRESS",   0,  0, 64},
    Row{"MEMORY HANDLE",     8,  0, 32},
    Row{"DATA LENGTH",       12, 0, 32},
    Row{"TOTAL DATA LENGTH", 16, 0, 32}
};
inline constexpr std::array kProfile{
    Row{"IOCGUID",              0,  0, 64 },
    Row{"VendorID",             8,  0, 32 },
    Row{"DeviceID",             12, 0, 32 },
    Row{"DeviceVersion",        16, 0, 16 },
    Row{"-",                    18, 0, 16 },
    Row{"SubsystemVendorID",    20, 0, 32 },
    Row{"SubsystemID",          24, 0, 32 },
    Row{"IOClass",              28, 0, 16 },
    Row{"IOSubclass",           30, 0, 16 },
    Row{"Protocol",             32, 0, 16 },
    Row{"ProtocolVersion",      34, 0, 16 },
    Row{"ServiceConnections",   36, 0, 16 },
    Row{"InitiatorsSupported",  38, 0, 16 },
    Row{"SendMessageDepth",     40, 0, 16 },
    Row{"-",                    42, 0, 8  },
    Row{"RDMAReadDepth",        43, 0, 8  },
    Row{"SendMessageSize",      44, 0, 32 },
    Row{"RDMATransferSize",     48, 0, 32 },
    Row{"ControllerOperations", 52, 0, 8  },
    Row{"ControllerServices",   53, 0, 8  },
    Row{"ServiceEntries",       54, 0, 8  },
    Row{"-",                    55, 0, 72 },
    Row{"IDString",             64, 0, 512}
};
inline constexpr std::array kServiceEntry{
    Row{"ServiceName", 0,  0, 320},
    Row{"ServiceID",   40, 0, 64 }
};

[[nodiscard]] inline std::uint64_t bits_at(ByteSpan octets, std::size_t from, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t bit = from; bit < from + count; ++bit) {
    const auto octet = std::to_integer<unsigned>(octets[bit / 8]);
    value = value * 2 + (octet >> (7 - bit % 8) & 1U);
  }
  return value;
}

[[nodiscard]] inline Decoded decode(const Table& table, ByteSpan octets) {
  Decoded decoded{.name = table.name};
  if (octets.size() < table.octets) {
    decoded.faults.push_back(fmt::format("{} of {} octets", table.name, octets.size()));
    return decoded;
  }
  std::size_t covered = 0;
  for (const Row& row : table.rows) {
    const std::size_t from = row.octet * 8 + row.bit;
    if (from != covered) {
      decoded.faults.push_back(fmt::format("{}: a hole before {}", table.name, row.name));
    }
    covered = from + row.bits;
    if (row.bits > 64) {
      const ByteSpan field = octets.subspan(row.octet, row.bits / 8);
      if (row.name == "-") {
        for (const std::byte octet : field) {
          if (octet != std::byte{}) {
            decoded.faults.push_back(fmt::format("{}: reserved at {}", table.name, row.octet));
          }
        }
      } else {
        decoded.octets[std::string{row.name}] = {field.begin(), field.end()};
      }
    } else if (row.name != "-") {
      decoded.numbers[std::string{row.name}] = bits_at(octets, from, row.bits);
    } else if (bits_at(octets, from, row.bits) != 0) {
      decoded.faults.push_back(fmt::format("{}: reserved at {}", table.name, row.octet));
    }
  }
  if (covered != table.octets * 8) {
    decoded.faults.push_back(fmt::format("{}: rows end at bit {}", table.name, covered));
  }
  return decoded;
}

[[nodiscard]] inline const Table* table_of(std::uint8_t opcode) {
  static constexpr std::array<std::pair<std::uint8_t, Table>, 12> kUnits{
      {
       {0x00, {"SRP_LOGIN_REQ", 64, kLoginReq}},
       {0x01, {"SRP_TSK_MGMT", 48, kTskMgmt}},
       {0x02, {"SRP_CMD", 48, kCmd}},
       {0x03, {"SRP_I_LOGOUT", 16, kTagOnly}},
       {0x41, {"SRP_CRED_RSP", 16, kTagOnly}},
       {0x42, {"SRP_AER_RSP", 16, kTagOnly}},
       {0x80, {"SRP_T_LOGOUT", 16, kTLogout}},
       {0x81, {"SRP_CRED_REQ", 16, kCredReq}},
       {0x82, {"SRP_AER_REQ", 36, kAerReq}},
       {0xC0, {"SRP_LOGIN_RSP", 52, kLoginRsp}},
       {0xC1, {"SRP_RSP", 36, kRsp}},
       {0xC2, {"SRP_LOGIN_REJ", 32, kLoginRej}},
       }
  };
  for (const auto& [number, table] : kUnits) {
    if (number == opcode) {
      return &table;
    }
  }
  return nullptr;
}

/// How many octets the descriptors of one direction occupy; adds a fault if they cannot.
[[nodiscard]] inline std::size_t buffer_octets(Decoded& command, ByteSpan rest,
                                               std::uint64_t format, std::uint64_t count) {
  if (format == 2) {
    const Decoded table = decode({"indirect", 20, kIndirect}, rest);
    command.faults.insert(command.faults.end(), table.faults.begin(), table.faults.end());
    return 20 + 16 * count;
  }
  return format == 0 ? 0 : format == 1 ? 16 : format == 3 ? 4 : rest.size() + 1;
}

/// A whole unit as a SEND carries it. `immediate_offset` is the login's.
[[nodiscard]] inline Decoded decode_unit(ByteSpan unit, std::size_t immediate_offset = 68) {
  const Table* const table =
      unit.empty() ? nullptr : table_of(std::to_integer<std::uint8_t>(unit[0]));
  if (table == nullptr) {
    return {.name = "?", .faults = {"no opcode of SRP"}};
  }
  Decoded decoded = decode(*table, unit);
  if (!decoded.faults.empty()) {
    return decoded;
  }
  auto& number = decoded.numbers;
  std::size_t whole = table->octets;
  if (table->name == "SRP_CMD") {
    whole += 4 * number["ADDITIONAL CDB LENGTH"];
    for (const std::string direction : {"DATA-OUT", "DATA-IN"}) {
      const std::uint64_t format = number[direction + " BUFFER DESCRIPTOR FORMAT"];
      const std::uint64_t count = number[direction + " BUFFER DESCRIPTOR COUNT"];
      if (whole > unit.size()) {
        break;
      }
      if (format == 3 && unit.size() >= whole + 4) {
        number["IMMEDIATE DATA LENGTH"] = bits_at(unit, whole * 8, 32);
        whole = immediate_offset + number["IMMEDIATE DATA LENGTH"];
      } else {
        whole += buffer_octets(decoded, unit.subspan(whole), format, count);
      }
    }
  } else if (table->name == "SRP_RSP") {
    const bool has_response = (number["FLAGS"] & 1) != 0;
    const bool has_sense = (number["FLAGS"] & 2) != 0;
    whole += has_response ? number["RESPONSE DATA LIST LENGTH"] : 0;
    whole += has_sense ? number["SENSE DATA LIST LENGTH"] : 0;
    if (has_response && unit.size() >= 40) {
      number["RSP_CODE"] = bits_at(unit, std::size_t{39} * 8, 8);
    }
  } else if (table->name == "SRP_AER_REQ") {
    whole += number["SENSE DATA LIST LENGTH"];
  }
  if (whole != unit.size()) {
    decoded.faults.push_back(
        fmt::format("{} says {} octets, and has {}", table->name, whole, unit.size()));
  }
  return decoded;
}

}  // namespace weft::wire::srp_tables
