#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "wire/print.h"

/// What MADs carry, for people: their class's header and the attributes or records behind it.
namespace weft::wire {

/// Of a UD payload to QP0 or QP1: the headers of its MAD, then its attribute or the whole records
/// of this segment. Any bytes may come; of fewer than a MAD has, only the common header, if that is
/// there.
[[nodiscard]] std::vector<PrintedHeader> printed_mad(ByteSpan payload);

/// What a code of an attribute means by the name of its field; empty when it is none or unknown.
[[nodiscard]] std::string_view attribute_code_meaning(std::string_view field, std::uint64_t value);

/// Whether people count with that number, although it is wider than an octet.
[[nodiscard]] bool is_counter(std::string_view field);

}  // namespace weft::wire
