#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "wire/ib_packet.h"
#include "wire/roce_packet.h"

/// What people read: headers by the specification's names. P_Keys, QPNs, keys and addresses in hex,
/// LIDs and PSNs decimal.
namespace weft::wire {

/// One header: its name and its fields in wire order.
struct PrintedHeader {
  std::string name;
  std::vector<std::pair<std::string, std::string>> fields;
};

/// A packet taken apart for printing.
struct PrintedPacket {
  std::string summary;  // one line
  std::vector<PrintedHeader> headers;
  std::size_t payload_bytes{};
};

[[nodiscard]] PrintedPacket printed(const IbPacket& packet);
[[nodiscard]] PrintedPacket printed(const RocePacket& packet);

/// The summary, then a line for each header.
[[nodiscard]] std::string to_text(const PrintedPacket& packet);

/// One JSON object; values are strings as printed.
[[nodiscard]] std::string to_json(const PrintedPacket& packet);

}  // namespace weft::wire
