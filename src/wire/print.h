#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wire/ib_packet.h"
#include "wire/layout.h"
#include "wire/mad/mad.h"
#include "wire/roce_packet.h"

/// Text output of headers, with the specification's field names. P_Keys, QPNs, keys and addresses
/// are printed in hex, LIDs and PSNs in decimal, codes with their meaning: `OpCode=RC SEND
/// Only(4)`.
namespace weft::wire {

/// Format of a value, which also determines its JSON type.
enum class ValueStyle : std::uint8_t { Decimal, Hex, Octets };

struct PrintedField {
  std::string name;  ///< from the layout; for an array element, with its index appended
  ValueStyle style{};
  std::uint64_t number{};  ///< 0 for octets
  std::string meaning;     ///< of a code; empty if there is none
  std::string text;        ///< complete text, as in `name=text`
};

struct PrintedHeader {
  std::string_view name;
  std::size_t bytes{};  ///< on the wire
  std::vector<PrintedField> fields;
};

/// A visitor that collects the values of one header. Names of MAD Status and AttributeID depend on
/// the MgmtClass, which precedes them.
class FieldPrinter {
 public:
  explicit FieldPrinter(PrintedHeader& into) : into_(into) {}

  void number(std::string_view name, unsigned bits, std::uint64_t value);
  void octets(std::string_view name, std::span<const std::byte> octets);
  void element(std::size_t index) { element_ = index; }
  void no_element() { element_.reset(); }

 private:
  [[nodiscard]] std::string named(std::string_view name) const;
  [[nodiscard]] std::string meaning_of(std::string_view name, std::uint64_t value) const;

  PrintedHeader& into_;
  ManagementClass mgmt_class_{};
  std::optional<std::size_t> element_;
};

template <WireType T>
[[nodiscard]] PrintedHeader printed_header(const T& header) {
  PrintedHeader out{.name = T::kName, .bytes = kSizeOf<T>, .fields = {}};
  visit(header, FieldPrinter{out});
  return out;
}

/// One line without newline: `BTH OpCode=RC SEND Only(4) SE=0 ...`.
[[nodiscard]] std::string to_text(const PrintedHeader& header);

template <WireType T>
[[nodiscard]] std::string to_text(const T& header) {
  return to_text(printed_header(header));
}

/// A dissected packet.
struct PrintedPacket {
  std::string summary;                 ///< one line without newline
  std::vector<PrintedHeader> headers;  ///< LRH or Ethernet first; a UD packet to QP0 or QP1 ends
                                       ///< with its MAD and its attributes
  std::size_t payload_bytes{};         ///< after the transport headers, without pad
};

[[nodiscard]] PrintedPacket printed(const IbPacket& packet);
[[nodiscard]] PrintedPacket printed(const RocePacket& packet);

/// The summary, followed by a line for each header.
[[nodiscard]] std::string to_text(const PrintedPacket& packet);

/// One JSON object on one line. Decimals are numbers, other values strings as printed; a code with
/// a meaning is an object of `value` and `name`.
[[nodiscard]] std::string to_json(const PrintedPacket& packet);

}  // namespace weft::wire
