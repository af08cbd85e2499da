#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "wire/print.h"

/// Text output of MADs: the header of their class, and the attributes or records they contain.
namespace weft::wire {

/// Dissects a UD payload for QP0 or QP1 into MAD headers and the attribute, or the complete records
/// of this segment. Input is not trusted; of a truncated MAD only the common header is printed, if
/// complete.
[[nodiscard]] std::vector<PrintedHeader> printed_mad(ByteSpan payload);

/// Meaning of an attribute's code, by field name; empty if it is unknown or not a code.
[[nodiscard]] std::string_view attribute_code_meaning(std::string_view field, std::uint64_t value);

/// True if the field is printed in decimal although it is wider than an octet.
[[nodiscard]] bool is_counter(std::string_view field);

}  // namespace weft::wire
